package guard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
)

func TestDistributeWithoutCitus(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	_, err := conn.Exec(t.Context(), "SELECT guard.distribute()")
	requireSQLState(t, err, guard.CitusMissing, "CREATE EXTENSION citus")
}

// citus stands for the extension: its functions have the signatures of Citus
// 12.1 and write down how they are called.
const citus = `
SET allow_system_table_mods = on;
CREATE SCHEMA citus;
CREATE TYPE citus.distribution_type AS ENUM ('hash', 'range', 'append');
CREATE TABLE public.calls (call bigint GENERATED ALWAYS AS IDENTITY, what text, argument text, colocated_with text, mode text);
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass);
CREATE FUNCTION pg_catalog.create_distributed_table(
    table_name regclass, distribution_column text, distribution_type citus.distribution_type DEFAULT 'hash',
    colocate_with text DEFAULT 'default', shard_count int DEFAULT NULL)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO public.calls (what, argument, colocated_with, mode)
    VALUES (table_name::text, distribution_column, colocate_with, current_setting('citus.multi_shard_modify_mode'));
    INSERT INTO pg_catalog.pg_dist_partition VALUES (table_name);
$$;
CREATE FUNCTION pg_catalog.create_distributed_function(
    function_name regprocedure, distribution_arg_name text DEFAULT NULL, colocate_with text DEFAULT 'default',
    force_delegation boolean DEFAULT NULL)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO public.calls (what, argument, colocated_with, mode)
    VALUES (function_name::text, distribution_arg_name, colocate_with, current_setting('citus.multi_shard_modify_mode'));
$$;`

func TestDistribute(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	run(t, conn, citus)
	run(t, conn, "SELECT guard.distribute()")
	calls := citusCalls(t, conn)

	require.Equal(t, citusCall{"guard.idempotency_keys", "key", "none", "sequential"}, calls[0], "the table comes first")
	told := map[string]citusCall{}
	for _, call := range calls[1:] {
		told[call.What] = call
	}
	for _, function := range []string{
		"guard.claim(text,text,text,bytea,interval,interval)",
		"guard.complete(text,text,bigint,integer,jsonb,bytea)",
		"guard.release(text,text,bigint)",
		"guard.extend(text,text,bigint,interval)",
		"guard.abandon(text,text,bigint)",
		"guard.hold(text,text,bigint)",
		"guard.is_held(text,text)",
		"guard.inspect(text,text)",
	} {
		require.Equal(t, citusCall{function, "p_key", "guard.idempotency_keys", "sequential"}, told[function])
	}
	for _, function := range []string{
		"guard.retry_after_ms(interval)",
		"guard.state(timestamp with time zone,timestamp with time zone,timestamp with time zone,timestamp with time zone)",
	} {
		require.Equal(t, citusCall{function, "", "default", "sequential"}, told[function], "what the others call")
	}
	for _, function := range []string{"guard.distribute()", "guard.stats()", "guard.purge_batch(integer,tid,tid,interval)", "guard.operator_history(text,text)"} {
		require.NotContains(t, told, function, "what stays on the coordinator")
	}

	run(t, conn, "TRUNCATE public.calls")
	run(t, conn, "SELECT guard.distribute()")
	require.Equal(t, calls[1:], citusCalls(t, conn), "again: the functions, not the table")
}

type citusCall struct{ What, Argument, ColocatedWith, Mode string }

func citusCalls(t *testing.T, conn *pgx.Conn) []citusCall {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		SELECT what, coalesce(argument, ''), colocated_with, mode
		  FROM public.calls ORDER BY call`)
	require.NoError(t, err)
	calls, err := pgx.CollectRows(rows, pgx.RowToStructByPos[citusCall])
	require.NoError(t, err)
	return calls
}
