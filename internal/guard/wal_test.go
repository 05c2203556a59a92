package guard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// quiet is a server on which nothing writes WAL but the test.
func quiet(t *testing.T) *pgx.Conn {
	t.Helper()
	server := pgtest.Server(t, pgtest.WithSetting("autovacuum", "off"), pgtest.WithSetting("wal_level", "minimal"),
		pgtest.WithSetting("max_wal_senders", "0"), pgtest.WithSetting("shared_preload_libraries", ""))
	conn := server.New(t).Conn(t)
	_, err := conn.Exec(t.Context(), "SET search_path = pg_catalog")
	require.NoError(t, err)
	return conn
}

// walOf tells how many bytes of WAL a statement wrote.
func walOf(t *testing.T, conn *pgx.Conn, sql string) (bytes int64) {
	t.Helper()
	var before string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&before))
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err, sql)
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT (pg_current_wal_insert_lsn() - $1::pg_lsn)::bigint", before).Scan(&bytes))
	return bytes
}

// A replay, a conflict and a mismatch write nothing: no WAL, no transaction
// number, no dead tuple, no lock on the row.
func TestReadingAnswersWriteNothing(t *testing.T) {
	t.Parallel()
	conn := quiet(t)
	const same = "SELECT guard.claim('m', 'held', 'POST /x', sha256('a'))"
	_, err := conn.Exec(t.Context(), same+`; SELECT payments.begin_charge('m', 'charge', 'POST /x', sha256('a'), 'ch_1', 'order-1', 'alipay', '', 1, 'CNY');
		SELECT guard.complete('m', 'done', c.fence, 200, NULL, 'x') FROM guard.claim('m', 'done', 'POST /x', sha256('a')) AS c`)
	require.NoError(t, err)
	calls := map[string]string{
		"conflict":          same,
		"mismatch":          "SELECT guard.claim('m', 'held', 'POST /x', sha256('b'))",
		"replay":            "SELECT guard.claim('m', 'done', 'POST /x', sha256('a'))",
		"mismatch, done":    "SELECT guard.claim('m', 'done', 'POST /x', sha256('b'))",
		"charge, conflict":  "SELECT payments.begin_charge('m', 'charge', 'POST /x', sha256('a'), 'ch_2', 'order-1', 'alipay', '', 1, 'CNY')",
		"charge, mismatch":  "SELECT payments.begin_charge('m', 'charge', 'POST /x', sha256('b'), 'ch_2', 'order-1', 'alipay', '', 1, 'CNY')",
		"stale completion":  "SELECT guard.complete('m', 'done', 1, 200, NULL, 'y')",
		"stale release":     "SELECT guard.release('m', 'held', 1)",
		"stale extension":   "SELECT guard.extend('m', 'held', 1, interval '1 minute')",
		"stale abandonment": "SELECT guard.abandon('m', 'held', 1)",
	}
	versions := rows(t, conn, "SELECT ctid::text || xmin::text || xmax::text FROM guard.idempotency_keys ORDER BY key")
	for name, call := range calls {
		// The first times may tidy up: hint bits, pruning of a page.
		for range 2 {
			walOf(t, conn, call)
		}
		require.Zero(t, walOf(t, conn, call), name)

		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), call)
		require.NoError(t, err)
		var number *string
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_current_xact_id_if_assigned()::text").Scan(&number))
		require.Nil(t, number, name)
		require.NoError(t, tx.Commit(t.Context()))
	}
	require.Equal(t, versions, rows(t, conn, "SELECT ctid::text || xmin::text || xmax::text FROM guard.idempotency_keys ORDER BY key"),
		"no row was written or locked")

	// The measure can fail: what writes shows.
	require.Positive(t, walOf(t, conn, "SELECT guard.claim('m', 'new', 'POST /x', sha256('a'))"))
}
