package guard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// quiet is a session on a server on which nothing but the test writes WAL: no
// autovacuum, no extension, no regular note of running transactions (which
// belongs to wal_level replica), no checkpoint in between.
func quiet(t *testing.T) *pgx.Conn {
	t.Helper()
	conn := pgtest.Server(t, pgtest.WithoutChecksums(),
		pgtest.WithSetting("autovacuum", "off"),
		pgtest.WithSetting("wal_level", "minimal"),
		pgtest.WithSetting("max_wal_senders", "0"),
		pgtest.WithSetting("shared_preload_libraries", ""),
		pgtest.WithSetting("checkpoint_timeout", "1d"),
	).New(t).Conn(t)
	var hints string
	require.NoError(t, conn.QueryRow(t.Context(),
		"SELECT current_setting('data_checksums') || ' ' || current_setting('wal_log_hints')").Scan(&hints))
	require.Equal(t, "off off", hints, "a hint bit that is set while reading is then no WAL")
	return conn
}

// footprint is what a transaction left in the server.
type footprint struct {
	walBytes int64
	// xid tells whether it needed a transaction id: anything that writes, or
	// locks a row, does.
	xid bool
	// written counts row versions written and deleted.
	written int64
	// rows are the places of all rows, and who wrote and locked them.
	rows []string
}

const (
	countWrites = `SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables`
	rowHeaders  = `
		SELECT concat_ws(' ', key, ctid, xmin, xmax) FROM guard.idempotency_keys
		UNION ALL
		SELECT concat_ws(' ', order_id, ctid, xmin, xmax) FROM payments.orders
		ORDER BY 1`
)

func footprintOf(t *testing.T, conn *pgx.Conn, level pgx.TxIsoLevel, call string) (left footprint) {
	t.Helper()
	scan := func(sql string, target any, args ...any) {
		t.Helper()
		require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(target))
	}
	var start string
	var before, after int64
	run(t, conn, "SELECT pg_stat_force_next_flush()")
	scan(countWrites, &before)
	scan("SELECT pg_current_wal_insert_lsn()::text", &start)
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), call)
	require.NoError(t, err, call)
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_current_xact_id_if_assigned() IS NOT NULL").Scan(&left.xid))
	require.NoError(t, tx.Commit(t.Context()))
	scan("SELECT (pg_current_wal_insert_lsn() - $1::pg_lsn)::bigint", &left.walBytes, start)
	run(t, conn, "SELECT pg_stat_force_next_flush()")
	scan(countWrites, &after)
	left.written = after - before
	left.rows = rows(t, conn, rowHeaders)
	return left
}

// A replay, a conflict and a mismatch write nothing: no WAL, no row version, no
// transaction id, and so no lock on a row.
func TestReadingAnswersWriteNothing(t *testing.T) {
	t.Parallel()
	conn := quiet(t)
	run(t, conn, `
		SELECT guard.claim('m', 'held', 'POST /x', sha256('a'));
		SELECT guard.complete('m', 'done', c.fence, 200, NULL, 'x') FROM guard.claim('m', 'done', 'POST /x', sha256('a')) AS c;
		SELECT payments.begin_charge('m', 'charge', 'POST /x', sha256('a'), 'ch_1', 'o', 'alipay', '', 1, 'EUR');
		SELECT payments.apply_notification('alipay', 'event', 'paid', 'o', 't', 1, 'EUR', NULL, NULL, NULL, NULL)`)

	answers := map[string]string{}
	for outcome, arguments := range map[string]string{
		"conflict":              "'m', 'held', 'POST /x', sha256('a')",
		"mismatch":              "'m', 'held', 'POST /x', sha256('b')",
		"mismatch of the path":  "'m', 'held', 'POST /y', sha256('a')",
		"replay":                "'m', 'done', 'POST /x', sha256('a')",
		"mismatch, once done":   "'m', 'done', 'POST /x', sha256('b')",
		"conflict of a charge":  "'m', 'charge', 'POST /x', sha256('a')",
		"mismatch of a charge":  "'m', 'charge', 'POST /x', sha256('b')",
		"mismatch of a webhook": "'webhook', 'event', 'POST /x', sha256('a')",
	} {
		answers["claim: "+outcome] = "SELECT guard.claim(" + arguments + ")"
		answers["begin_charge: "+outcome] = "SELECT payments.begin_charge(" + arguments + ", 'ch_2', 'o', 'alipay', '', 1, 'EUR')"
		answers["begin_refund: "+outcome] = "SELECT payments.begin_refund(" + arguments + ", 'o', 're', NULL, 1)"
		answers["create_order: "+outcome] = "SELECT payments.create_order(" + arguments + ", 'o2', 1, 'EUR', NULL, 201, NULL, NULL)"
	}
	answers["apply_notification: duplicate"] = `
		SELECT payments.apply_notification('alipay', 'event', 'paid', 'o', 't', 1, 'EUR', NULL, NULL, NULL, NULL)`

	for _, answer := range answers {
		// The first call reads the catalog, whose pages may be due for pruning.
		run(t, conn, answer)
	}
	run(t, conn, "VACUUM")
	run(t, conn, "CHECKPOINT")
	untouched := footprint{rows: rows(t, conn, rowHeaders)}
	require.Len(t, untouched.rows, 5)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for name, answer := range answers {
			require.Equal(t, untouched, footprintOf(t, conn, level, answer), "%s, %s", level, name)
		}
	}

	// The measures can fail, each of them.
	left := footprintOf(t, conn, pgx.ReadCommitted, "SELECT guard.claim('m', 'new', 'POST /x', sha256('a'))")
	require.Positive(t, left.walBytes)
	require.True(t, left.xid)
	require.EqualValues(t, 1, left.written)
	require.NotEqual(t, untouched.rows, left.rows)
	unlocked := left.rows
	left = footprintOf(t, conn, pgx.ReadCommitted, "SELECT FROM guard.idempotency_keys FOR KEY SHARE")
	require.True(t, left.xid, "a lock on a row is seen")
	require.Positive(t, left.walBytes)
	require.NotEqual(t, unlocked, left.rows)
}
