package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
)

// FF-07: a holder that calls hold first in its transaction is not taken over
// before that transaction ends, even when its lease is long over.
func TestHoldKeepsTakeoversOut(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			holder, other, owner := db.AppConn(t), db.AppConn(t), db.Conn(t)
			request := guard.Request{Scope: "s", Key: "k", Path: "POST /p", Hash: sum("body")}
			claim := func(ctx context.Context) (guard.Result, error) {
				return guard.Claim(ctx, other, request, time.Minute, time.Hour)
			}
			claimed, err := claim(t.Context())
			require.NoError(t, err)
			run(t, owner, "UPDATE guard.idempotency_keys SET lease_until = locked_at")

			tx, err := holder.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			require.NoError(t, err)
			var held bool
			require.NoError(t, tx.QueryRow(t.Context(), "SELECT guard.hold('s', 'k', $1)", claimed.Fence).Scan(&held))
			require.True(t, held)

			var took guard.Result
			done := make(chan error, 1)
			pid := other.PgConn().PID()
			go func() {
				result, err := claim(t.Context())
				took = result
				done <- err
			}()
			require.Eventually(t, func() bool {
				var waits bool
				err := owner.QueryRow(t.Context(), "SELECT cardinality(pg_blocking_pids($1)) > 0", pid).Scan(&waits)
				return err == nil && waits
			}, time.Minute, time.Millisecond, "the takeover waits")

			response := guard.Response{Status: 200, Headers: map[string]string{}, Body: []byte("in time")}
			completed, err := guard.Complete(t.Context(), tx, guard.Holder{Scope: "s", Key: "k", Fence: claimed.Fence}, response)
			require.NoError(t, err)
			require.Equal(t, guard.Completed, completed.Outcome)
			require.NoError(t, tx.Commit(t.Context()))
			require.NoError(t, <-done)
			require.Equal(t, guard.Result{Outcome: guard.Replay, Response: response}, took)
		})
	}
}
