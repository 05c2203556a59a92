package guardproof

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/payonce/payonce/internal/guard"
)

// purgeRows is how many keys past their life the traffic test purges; the
// environment's PAYONCE_PURGE_ROWS can ask for more, a million say.
const purgeRows = 100_000

const layExpiredSQL = `INSERT INTO guard.idempotency_keys (scope, key, request_path, request_hash, fence, response_status,
		response_headers, response_body, locked_at, lease_until, completed_at, created_at, expires_at)
	SELECT 'expired', 'key-' || n, 'POST /v1/charges', sha256('body'), 1, 201, '{}', 'done',
		now() - interval '3 days', now() - interval '3 days', now() - interval '3 days',
		now() - interval '3 days', now() - interval '2 days'
	FROM generate_series(1, $1::int) AS n`

const countDueSQL = `SELECT count(*) FROM guard.idempotency_keys WHERE expires_at <= clock_timestamp() AND completed_at IS NOT NULL`

// TestFF29_PurgeWithTraffic purges many keys, called from payonce_app, while other
// sessions claim and complete new keys and the very keys that are being purged
// (FF-29).
func TestFF29_PurgeWithTraffic(t *testing.T) {
	t.Parallel()
	rows := purgeRows
	if asked := os.Getenv("PAYONCE_PURGE_ROWS"); asked != "" {
		var err error
		rows, err = strconv.Atoi(asked)
		require.NoError(t, err)
	}
	d := newDesk(t, newTarget(t))
	_, err := d.owner.Exec(t.Context(), layExpiredSQL, rows)
	require.NoError(t, err)

	var purged atomic.Bool
	var fresh, again atomic.Int64
	group, ctx := errgroup.WithContext(t.Context())
	for client := range 3 {
		conn := d.connect(d.target.App)
		group.Go(func() error {
			for n := 0; !purged.Load(); n++ {
				request := guard.Request{Scope: "new", Key: fmt.Sprint(client, n), Path: "POST /v1/charges", Hash: sum("body")}
				if err := work(ctx, conn, request); err != nil {
					return err
				}
				fresh.Add(1)
				request.Scope, request.Key = "expired", fmt.Sprintf("key-%d", 1+(n*7919+client)%rows)
				result, err := guard.Claim(ctx, conn, request, time.Hour, 24*time.Hour)
				if err != nil {
					return err
				}
				if result.Recovered {
					return fmt.Errorf("a completed key was claimed as in doubt")
				}
				again.Add(1)
			}
			return nil
		})
	}
	_, err = d.app.Exec(t.Context(), `CALL guard.purge(p_batch => 1000)`)
	purged.Store(true)
	require.NoError(t, err)
	require.NoError(t, group.Wait())

	var due, left int64
	require.NoError(t, d.owner.QueryRow(t.Context(), countDueSQL).Scan(&due))
	require.Zero(t, due, "one call purges all that is due, whatever the traffic does")
	require.NoError(t, d.owner.QueryRow(t.Context(),
		`SELECT count(*) FROM guard.idempotency_keys WHERE scope = 'new' AND completed_at IS NOT NULL`).Scan(&left))
	require.Equal(t, fresh.Load(), left)
	t.Logf("%d keys purged; meanwhile %d new keys completed, %d expired ones claimed", rows, fresh.Load(), again.Load())
}

func work(ctx context.Context, conn *pgx.Conn, request guard.Request) error {
	result, err := guard.Claim(ctx, conn, request, time.Hour, 24*time.Hour)
	if err != nil {
		return err
	}
	holder := guard.Holder{Scope: request.Scope, Key: request.Key, Fence: result.Fence}
	completed, err := guard.Complete(ctx, conn, holder, created("done"))
	if err != nil {
		return err
	}
	if completed.Outcome != guard.Completed {
		return fmt.Errorf("a new key was %s", completed.Outcome)
	}
	return nil
}

// TestPurgeBlocksNobody stands still in the middle of a batch.
func TestPurgeBlocksNobody(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newTarget(t))
	_, err := d.owner.Exec(t.Context(), layExpiredSQL, 10)
	require.NoError(t, err)
	d.request.Scope = "expired"
	purging, _ := d.begin(pgx.TxOptions{})
	var deleted int
	require.NoError(t, purging.QueryRow(t.Context(), purgeSQL).Scan(&deleted))
	require.Equal(t, 10, deleted)

	// The desk's calls have no deadline: one that waited would hang here.
	claimAndComplete(d.key("another"), d.app)
	require.Equal(t, guard.Mismatch, d.key("another").other().claim(d.app).Outcome)

	claimer, pid := d.begin(pgx.TxOptions{})
	results := d.key("key-1").waiting(claimer, pid)
	require.NoError(t, purging.Commit(t.Context()))
	result := <-results
	require.NoError(t, result.err)
	require.Equal(t, guard.Result{Outcome: guard.Claimed, Fence: result.Fence}, result.Result)
}

// TestPurgeSkipsLockedKeys: purge waits for nobody either.
func TestPurgeSkipsLockedKeys(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newTarget(t))
	_, err := d.owner.Exec(t.Context(), layExpiredSQL, 10)
	require.NoError(t, err)
	d.request.Scope = "expired"
	claimer, _ := d.begin(pgx.TxOptions{})
	require.Equal(t, guard.Claimed, d.key("key-1").claim(claimer).Outcome)
	_, err = d.app.Exec(t.Context(), `CALL guard.purge()`)
	require.NoError(t, err)
	require.NoError(t, claimer.Rollback(t.Context()))
	var due int
	require.NoError(t, d.owner.QueryRow(t.Context(), countDueSQL).Scan(&due))
	require.Equal(t, 1, due)
}

// TestPurgeKeepsEvidence: work in doubt stays for the grace, a running claim
// for ever.
func TestPurgeKeepsEvidence(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newTarget(t))
	for name, test := range map[string]struct {
		completed   bool
		lease, life string
		grace       string
		want        int
	}{
		"completed, alive":                      {true, "-1 hour", "1 hour", "0", 1},
		"completed, past its life":              {true, "-1 hour", "-1 second", "30 days", 0},
		"in doubt, alive":                       {false, "-1 hour", "1 hour", "0", 1},
		"in doubt, within the grace":            {false, "-30 days", "-29 days", "30 days", 1},
		"in doubt, past the grace":              {false, "-31 days", "-31 days", "30 days", 0},
		"running, past its life and the grace":  {false, "1 minute", "-31 days", "30 days", 1},
		"running, past its life, without grace": {false, "1 minute", "-31 days", "0", 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.owner.Exec(t.Context(), `DELETE FROM guard.idempotency_keys`)
			require.NoError(t, err)
			fence := d.claim(d.app).Fence
			if test.completed {
				d.complete(d.app, fence, created("done"))
			}
			_, err = d.owner.Exec(t.Context(), `UPDATE guard.idempotency_keys
				SET lease_until = clock_timestamp() + $1::text::interval, expires_at = clock_timestamp() + $2::text::interval`,
				test.lease, test.life)
			require.NoError(t, err)
			_, err = d.app.Exec(t.Context(), `CALL guard.purge(p_in_doubt_grace => $1::text::interval)`, test.grace)
			require.NoError(t, err)
			var left int
			require.NoError(t, d.owner.QueryRow(t.Context(), `SELECT count(*) FROM guard.idempotency_keys`).Scan(&left))
			require.Equal(t, test.want, left)
		})
	}
}

// TestPurgeCommitsBatches: what earlier batches deleted stays deleted, and a
// purge inside a transaction, which could not commit them, is refused.
func TestPurgeCommitsBatches(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newTarget(t))
	_, err := d.owner.Exec(t.Context(), layExpiredSQL, 100)
	require.NoError(t, err)
	_, err = d.app.Exec(t.Context(), `CALL guard.purge(p_batch => 10, p_max_batches => 3)`)
	require.NoError(t, err)
	var due int
	require.NoError(t, d.owner.QueryRow(t.Context(), countDueSQL).Scan(&due))
	require.Equal(t, 70, due)

	tx, _ := d.begin(pgx.TxOptions{})
	_, err = tx.Exec(t.Context(), `CALL guard.purge()`)
	require.Equal(t, "2D000", guard.SQLState(err), "%v", err)
}

// TestPurgeUnderDefaultIsolation: a database whose transactions are
// SERIALIZABLE by default is purged too, although a key is claimed between the
// purge's snapshot and its look at that key.
func TestPurgeUnderDefaultIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			p := newPaused(t, newTarget(t), breakpoint(1, "purge_batch", "WITH due AS ("))
			p.request.Scope = "expired"
			_, err := p.owner.Exec(t.Context(), layExpiredSQL, 10)
			require.NoError(t, err)
			p.stop(1)
			require.NoError(t, p.steps.start(t.Context(), 0, func(ctx context.Context, conn *pgx.Conn) (answer, error) {
				if _, err := conn.Exec(ctx, fmt.Sprintf(`SET default_transaction_isolation = '%s'`, level)); err != nil {
					return answer{}, err
				}
				_, err := conn.Exec(ctx, `CALL guard.purge()`)
				return answer{}, err
			}))
			require.Equal(t, guard.Claimed, p.key("key-1").claim(p.owner).Outcome)
			p.goOn(1)
			require.False(t, p.steps.waits(0))
			require.NoError(t, p.steps.sessions[0].last.err)
			var left int
			require.NoError(t, p.owner.QueryRow(t.Context(), `SELECT count(*) FROM guard.idempotency_keys`).Scan(&left))
			require.Equal(t, 1, left)
		})
	}
}
