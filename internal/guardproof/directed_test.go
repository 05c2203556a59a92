package guardproof

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
)

// breakpoint stops a function before a line of its text, in sessions that ask
// for it, until the observer sets its number free.
func breakpoint(number int, function, before string) replacement {
	return replacement{function, before, fmt.Sprintf(`IF current_setting('proof.stops', true) = 'on' THEN
		PERFORM pg_advisory_xact_lock_shared(%d);
	END IF;
	%s`, number, before)}
}

// The places in claim between two of its statements.
const (
	beforeInsert   = "INSERT INTO guard.idempotency_keys AS k ("
	beforeReRead   = "v_look := true;"
	beforeTakeover = "UPDATE guard.idempotency_keys AS k"
)

// TestFF03_PurgedUnderAClaim stops a claim between two of its statements, while the
// row that it met is purged and another claim comes and goes (FF-03).
func TestFF03_PurgedUnderAClaim(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	for name, test := range map[string]struct {
		meanwhile func(desk)
		want      guard.Outcome
	}{
		"nobody else":           {func(desk) {}, guard.Claimed},
		"a third claims":        {func(d desk) { d.claim(d.owner) }, guard.Conflict},
		"a third completes":     {func(d desk) { claimAndComplete(d, d.owner) }, guard.Replay},
		"a third, another body": {func(d desk) { d.other().claim(d.owner) }, guard.Mismatch},
	} {
		t.Run("between conflict and re-read, "+name, func(t *testing.T) {
			t.Parallel()
			p := newPaused(t, target, breakpoint(1, "claim", beforeInsert), breakpoint(2, "claim", beforeReRead))
			p.stop(1)
			p.stop(2)
			p.start()
			claimAndComplete(p.desk, p.owner)
			p.move(expireKeySQL)
			p.goOn(1)
			p.purge()
			test.meanwhile(p.desk)
			p.goOn(2)
			require.Equal(t, test.want, p.outcome())
		})
		t.Run("between look and takeover, "+name, func(t *testing.T) {
			t.Parallel()
			p := newPaused(t, target, breakpoint(1, "claim", beforeTakeover))
			claimAndComplete(p.desk, p.owner)
			p.move(expireKeySQL)
			p.stop(1)
			p.start()
			p.purge()
			test.meanwhile(p.desk)
			p.goOn(1)
			require.Equal(t, test.want, p.outcome())
		})
	}
}

// TestClaimGivesUp: a claim that never sees what it conflicts with ends with an
// error of its own after a bounded number of looks; it never runs unclaimed.
func TestClaimGivesUp(t *testing.T) {
	t.Parallel()
	p := newPaused(t, newTarget(t), replacement{
		"claim", "WHERE k.scope = p_scope AND k.key = p_key;", "WHERE k.scope = p_scope AND k.key = p_key AND false;",
	})
	claimAndComplete(p.desk, p.owner)
	p.start()
	require.Equal(t, guard.Contention, guard.SQLState(p.steps.sessions[0].last.err))
}

// paused is a claim that stops at breakpoints, while the desk goes on.
type paused struct {
	desk
	steps *stepper
}

func newPaused(t *testing.T, target Target, changes ...replacement) paused {
	t.Helper()
	target = copyOf(t, target, changes...)
	steps, err := newStepper(t.Context(), target, 1)
	require.NoError(t, err)
	t.Cleanup(func() { steps.close(context.WithoutCancel(t.Context())) })
	_, err = steps.sessions[0].conn.Exec(t.Context(), `SET proof.stops = 'on'`)
	require.NoError(t, err)
	return paused{desk: newDesk(t, target), steps: steps}
}

func copyOf(t *testing.T, target Target, changes ...replacement) Target {
	t.Helper()
	copied, drop, err := target.clone(t.Context(), changes...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, drop(context.WithoutCancel(t.Context()))) })
	return copied
}

func (p paused) start() {
	p.Helper()
	require.NoError(p, p.steps.start(p.Context(), 0, func(ctx context.Context, conn *pgx.Conn) (answer, error) {
		result, err := guard.Claim(ctx, conn, p.request, lease, life)
		return answer{outcome: result.Outcome}, err
	}))
}

func (p paused) stop(number int) { p.advisory(`SELECT pg_advisory_lock($1)`, number) }

// goOn lets the claim go on to its next breakpoint or its end.
func (p paused) goOn(number int) {
	p.Helper()
	require.True(p, p.steps.waits(0), "the claim stands at breakpoint %d", number)
	p.advisory(`SELECT pg_advisory_unlock($1)`, number)
	require.NoError(p, p.steps.settle(p.Context()))
}

func (p paused) advisory(statement string, number int) {
	p.Helper()
	_, err := p.steps.observer.Exec(p.Context(), statement, number)
	require.NoError(p, err)
}

func (p paused) purge() {
	p.Helper()
	var deleted int
	require.NoError(p, p.owner.QueryRow(p.Context(), purgeSQL).Scan(&deleted))
	require.Equal(p, 1, deleted)
}

func (p paused) outcome() guard.Outcome {
	p.Helper()
	require.False(p, p.steps.waits(0))
	require.NoError(p, p.steps.sessions[0].last.err)
	return p.steps.sessions[0].last.answer.outcome
}

// TestFF04_LeaseBoundary: a lease that ends at the moment that a claim reads is
// over; one that ends a microsecond later is not.
func TestFF04_LeaseBoundary(t *testing.T) {
	t.Parallel()
	w := newStepped(t, newTarget(t))
	initial := initialStates()[held]
	require.NoError(t, begin(t.Context(), w.observer, initial))
	end := fmt.Sprintf(`SELECT setval('proof.microseconds', %d * 3600000000 - 2)`, initial.leaseUntil)
	_, err := w.observer.Exec(t.Context(), end)
	require.NoError(t, err)
	for _, want := range []guard.Outcome{guard.Conflict, guard.Claimed} {
		a, err := perform(t.Context(), w.sessions[0].conn, call{do: claim, request: initial.request})
		require.NoError(t, err)
		require.Equal(t, want, a.outcome)
	}
}

// TestLeaseCountsAfterTheWait: a call that waits for another transaction holds
// the key for its whole lease from then on.
func TestLeaseCountsAfterTheWait(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	for name, test := range map[string]struct {
		initial         state
		blocker, waiter call
	}{
		"a new key":    {state{}, call{do: claim, request: 1}, call{do: claim, request: 1}},
		"a dead claim": {initialStates()[inDoubt], call{do: claim, request: 1}, call{do: claim, request: 1}},
		"an extension": {
			initialStates()[held],
			call{do: abandon, fence: initialFence},
			call{do: extend, fence: initialFence},
		},
	} {
		for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.Serializable} {
			t.Run(fmt.Sprintf("%s, %s", name, level), func(t *testing.T) {
				t.Parallel()
				ctx, w := t.Context(), newStepped(t, target)
				require.NoError(t, begin(ctx, w.observer, test.initial))
				run := func(c call) func(context.Context, *pgx.Conn) (answer, error) {
					return func(ctx context.Context, conn *pgx.Conn) (answer, error) {
						if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL "+string(level)); err != nil {
							return answer{}, err
						}
						return perform(ctx, conn, c)
					}
				}
				require.NoError(t, w.start(ctx, 0, run(test.blocker)))
				require.NoError(t, w.start(ctx, 1, run(test.waiter)))
				require.True(t, w.waits(1))
				_, err := w.observer.Exec(ctx, `SELECT proof.pass_time(24)`)
				require.NoError(t, err)
				_, err = w.sessions[0].conn.Exec(ctx, "ROLLBACK")
				require.NoError(t, err)
				require.NoError(t, w.settle(ctx))
				require.False(t, w.waits(1))
				require.NoError(t, w.sessions[1].last.err)
				require.True(t, w.sessions[1].last.answer.wrote())
				_, err = w.sessions[1].conn.Exec(ctx, "COMMIT")
				require.NoError(t, err)

				now := epoch.Add(25 * time.Hour)
				left, err := readRow(ctx, w.observer, 0, &now)
				require.NoError(t, err)
				require.False(t, left.leaseOver)
			})
		}
	}
}

func newStepped(t *testing.T, target Target) *worker {
	t.Helper()
	copied, drop, err := target.cloneStepped(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, drop(context.WithoutCancel(t.Context()))) })
	w, err := newWorker(t.Context(), copied)
	require.NoError(t, err)
	t.Cleanup(func() { w.close(context.WithoutCancel(t.Context())) })
	return w
}
