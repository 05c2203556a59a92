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

// TestDifferentKeysNeverCollide: calls that change a key never fail those that
// change another key, in any isolation level and order.
func TestDifferentKeysNeverCollide(t *testing.T) {
	t.Parallel()
	for level, explore := range map[pgx.TxIsoLevel]func(*overlap, context.Context) error{
		pgx.RepeatableRead: (*overlap).exploreWhole,
		pgx.Serializable:   (*overlap).exploreAll,
	} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			o, err := newOverlap(t.Context(), newTarget(t), level)
			require.NoError(t, err)
			defer o.close(context.WithoutCancel(t.Context()))
			require.NoError(t, explore(o, t.Context()))

			for _, conn := range o.sessions {
				_, err := conn.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`)
				require.NoError(t, err)
			}
			var moved int
			require.NoError(t, o.owner.QueryRow(t.Context(), `SELECT n_tup_upd - n_tup_hot_upd
				FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'`).Scan(&moved))
			require.Positive(t, moved, "updates that write to the index too")
			t.Logf("%d orders of three sessions, no error; %d updates wrote to the index", o.rounds, moved)
		})
	}
}

// TestSameKeyFailsAtMostOne: above READ COMMITTED the loser of a race on one
// key gets 40001, and its retry gets the answer.
func TestSameKeyFailsAtMostOne(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, target)
			first, _ := d.begin(pgx.TxOptions{IsoLevel: level})
			second, pid := d.begin(pgx.TxOptions{IsoLevel: level})
			fence := d.claim(first).Fence
			results := d.waiting(second, pid)
			d.complete(first, fence, created("first"))
			require.NoError(t, first.Commit(t.Context()))
			require.Equal(t, serializationFailure, guard.SQLState((<-results).err))
			require.NoError(t, second.Rollback(t.Context()))

			retry, _ := d.begin(pgx.TxOptions{IsoLevel: level})
			require.Equal(t, created("first"), d.claim(retry).Response)
			require.NoError(t, retry.Commit(t.Context()))
		})
	}
}

// TestOldSnapshot: a claim that was committed after a transaction took its
// snapshot is an error there, never an answer that says the key is gone.
func TestOldSnapshot(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, target)
			for name, call := range map[string]func(db guard.DB, holder guard.Holder) error{
				"complete": func(db guard.DB, holder guard.Holder) error {
					_, err := guard.Complete(d.Context(), db, holder, created("late"))
					return err
				},
				"release": func(db guard.DB, holder guard.Holder) error {
					_, err := guard.Release(d.Context(), db, holder)
					return err
				},
				"extend": func(db guard.DB, holder guard.Holder) error {
					_, err := guard.Extend(d.Context(), db, holder, time.Hour)
					return err
				},
				"abandon": func(db guard.DB, holder guard.Holder) error {
					_, err := guard.Abandon(d.Context(), db, holder)
					return err
				},
			} {
				d.request.Key = name
				old, _ := d.begin(pgx.TxOptions{IsoLevel: level})
				fence := d.claim(d.app).Fence
				require.Equal(t, serializationFailure, guard.SQLState(call(old, d.holder(fence))), name)
				require.NoError(t, old.Rollback(t.Context()))
				require.Equal(t, guard.Conflict, d.claim(d.app).Outcome, name)
			}
		})
	}
}

// TestSerializableReads holds what PostgreSQL cannot avoid. A replay, conflict,
// mismatch or takeover reads the key through the index, and SERIALIZABLE notes
// that for the whole index page. That fails nobody by itself; but a transaction
// that reads one key so and writes to the index, with another key's claim or a
// takeover that finds no room on its page, can be the middle of a chain of
// three, which costs one of them a retry.
func TestSerializableReads(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// middle is what the middle transaction does beside claiming a key of its own.
		middle func(d desk, tx guard.DB)
		state  string
		// full leaves no room on the dead claim's page.
		full bool
	}{
		"claim and complete": {
			middle: func(d desk, tx guard.DB) { claimAndComplete(d.key("middle's"), tx) },
		},
		"claim, and another key's replay":            {middle: claimAndReplay, state: serializationFailure},
		"a dead claim taken over, in place":          {middle: takeOver},
		"a dead claim taken over, on another page":   {middle: takeOver, state: serializationFailure, full: true},
		"a dead claim taken over, and another claim": {middle: takeOverAndClaim, state: serializationFailure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, newTarget(t))
			_, err := d.owner.Exec(t.Context(), `ALTER TABLE guard.idempotency_keys SET (fillfactor = 100)`)
			require.NoError(t, err)
			// Laid in one piece: the room of an older version could be used again.
			_, err = d.owner.Exec(t.Context(), `INSERT INTO guard.idempotency_keys
				(scope, key, request_path, request_hash, fence, locked_at, lease_until, created_at, expires_at)
				VALUES ($1, 'dead', $2, $3, 1, now(), now(), now(), now() + interval '1 hour')`,
				d.request.Scope, d.request.Path, d.request.Hash)
			require.NoError(t, err)
			if test.full {
				for n := range 60 {
					d.key(fmt.Sprint("filler ", n)).claim(d.app)
				}
			}
			claimAndComplete(d.key("completed"), d.app)

			serializable := pgx.TxOptions{IsoLevel: pgx.Serializable}
			reader, _ := d.begin(serializable)
			middle, _ := d.begin(serializable)
			writer, _ := d.begin(serializable)
			require.Equal(t, guard.Replay, d.key("completed").claim(reader).Outcome)
			test.middle(d, middle)
			require.Equal(t, guard.Claimed, d.key("writer's").claim(writer).Outcome)
			require.NoError(t, writer.Commit(t.Context()))
			require.Equal(t, test.state, guard.SQLState(middle.Commit(t.Context())))
			require.NoError(t, reader.Commit(t.Context()))

			if test.state == "" {
				return
			}
			retry, _ := d.begin(serializable)
			test.middle(d, retry)
			require.NoError(t, retry.Commit(t.Context()), "alone, its retry passes")
		})
	}
}

func claimAndComplete(d desk, tx guard.DB) {
	d.complete(tx, d.claim(tx).Fence, created("middle"))
}

func claimAndReplay(d desk, tx guard.DB) {
	require.Equal(d, guard.Claimed, d.key("middle's").claim(tx).Outcome)
	require.Equal(d, guard.Replay, d.key("completed").claim(tx).Outcome)
}

func takeOver(d desk, tx guard.DB) {
	require.True(d, d.key("dead").claim(tx).Recovered)
}

func takeOverAndClaim(d desk, tx guard.DB) {
	takeOver(d, tx)
	require.Equal(d, guard.Claimed, d.key("middle's").claim(tx).Outcome)
}

func (d desk) key(key string) desk {
	d.request.Key = key
	return d
}
