package housekeeping_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/housekeeping"
	"github.com/payonce/payonce/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestPurgesWithoutPgCron(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	owner := db.Conn(t)
	_, err := owner.Exec(t.Context(), `SELECT guard.claim('m', 'old', 'POST /x', pg_catalog.sha256('a')),
	       guard.claim('m', 'new', 'POST /x', pg_catalog.sha256('a'))`)
	require.NoError(t, err)
	_, err = owner.Exec(t.Context(), `SELECT guard.complete('m', k.key, k.fence, 200, NULL, NULL)
	  FROM guard.idempotency_keys AS k`)
	require.NoError(t, err)
	_, err = owner.Exec(t.Context(), `UPDATE guard.idempotency_keys SET expires_at = pg_catalog.now() WHERE key OPERATOR(pg_catalog.=) 'old'`)
	require.NoError(t, err)

	pool, err := pgxpool.New(t.Context(), db.AppURL)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		housekeeping.Purge(ctx, pool, time.Hour, slog.New(slog.DiscardHandler))
	}()
	var left string
	require.Eventually(t, func() bool {
		return owner.QueryRow(t.Context(), `SELECT pg_catalog.string_agg(key, ',') FROM guard.idempotency_keys`).Scan(&left) == nil && left == "new"
	}, 10*time.Second, 5*time.Millisecond)
	cancel()
	<-done
}
