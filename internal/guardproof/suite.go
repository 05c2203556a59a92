package guardproof

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
)

// Run holds a target against the guard's contract: the same tests for every
// version of PostgreSQL, pooler and query exec mode.
func Run(t *testing.T, target Target) {
	t.Run("histories", func(t *testing.T) { runHistories(t, target, pgx.ReadCommitted, 10) })
	t.Run("state machine", func(t *testing.T) { checkMachine(t.Context(), t, target) })
	for _, part := range []struct {
		name string
		test func(desk)
	}{
		{"every outcome, in turn; FF-02", everyOutcome},
		{"many sessions, one key; FF-01", manySessions},
		{"a dead holder's key is usable again after its lease; FF-04 FF-05", deadHolder},
		{"a stale holder changes nothing; FF-07", staleHolder},
		{"a holder that extends its lease in time keeps it", extendedLease},
		{"past its life a key is claimed anew, purged or not; FF-31", pastItsLife},
		{"a replay is the same bytes; FF-16 FF-32", sameBytes},
		{"a released key starts anew", releasedKey},
		{"an abandoned key is in doubt", abandonedKey},
		{"the whole work in one transaction", wholeTransaction},
		{"the whole work in one transaction, bounded by lock_timeout", lockTimeout},
		{"the whole work in one transaction, rolled back", rolledBack},
		{"every isolation level", everyLevel},
		{"arguments out of range", badArguments},
		{"purge from the application's role", purgeFromApp},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(newDesk(t, target))
		})
	}
}

// Interleave plays every order of the steps of two sessions.
func Interleave(t *testing.T, target Target) {
	t.Helper()
	explored, err := interleave(t.Context(), target, pairs(pgx.ReadCommitted, basicPrograms()), 2)
	require.NoError(t, err)
	t.Logf("%d interleavings, all explained", explored)
}

func runHistories(t *testing.T, target Target, level pgx.TxIsoLevel, count int) {
	t.Helper()
	h, err := newHistorian(t.Context(), target, usualSize)
	require.NoError(t, err)
	defer h.close(context.WithoutCancel(t.Context()))
	made := 0
	for seed := range count {
		transactions, err := h.record(t.Context(), uint64(seed), level)
		require.NoError(t, err)
		made += transactions
	}
	t.Logf("%s: %d histories of %d transactions, all linearizable", level, count, made)
}

// usualSize is small enough to search for an explanation in milliseconds, and
// crowded enough that most transactions meet another.
var usualSize = historySize{sessions: 5, transactions: 14, keys: 3}

// desk is one test's key and connections.
type desk struct {
	*testing.T
	target  Target
	app     *pgx.Conn
	owner   *pgx.Conn
	request guard.Request
}

func newDesk(t *testing.T, target Target) desk {
	t.Helper()
	d := desk{T: t, target: target, request: guard.Request{
		Scope: t.Name()[:min(len(t.Name()), 255)], Key: "key", Path: "POST /v1/charges", Hash: sum("body"),
	}}
	d.app = d.connect(target.App)
	d.owner = d.connect(target.Owner)
	return d
}

func sum(body string) []byte {
	hash := sha256.Sum256([]byte(body))
	return hash[:]
}

func (d desk) connect(config *pgx.ConnConfig) *pgx.Conn {
	d.Helper()
	conn, err := pgx.ConnectConfig(d.Context(), config)
	require.NoError(d, err)
	d.Cleanup(func() { _ = conn.Close(context.WithoutCancel(d.Context())) })
	return conn
}

// other is the same key claimed for another body.
func (d desk) other() desk {
	d.request.Hash = sum("other body")
	return d
}

func (d desk) claim(db guard.DB) guard.Result {
	d.Helper()
	result, err := guard.Claim(d.Context(), db, d.request, time.Hour, 24*time.Hour)
	require.NoError(d, err)
	return result
}

func (d desk) complete(db guard.DB, fence int64, response guard.Response) guard.Result {
	d.Helper()
	result, err := guard.Complete(d.Context(), db, d.holder(fence), response)
	require.NoError(d, err)
	return result
}

func (d desk) holder(fence int64) guard.Holder {
	return guard.Holder{Scope: d.request.Scope, Key: d.request.Key, Fence: fence}
}

func (d desk) yes(call func(context.Context, guard.DB, guard.Holder) (bool, error), fence int64) bool {
	d.Helper()
	yes, err := call(d.Context(), d.app, d.holder(fence))
	require.NoError(d, err)
	return yes
}

func extendByHour(ctx context.Context, db guard.DB, holder guard.Holder) (bool, error) {
	return guard.Extend(ctx, db, holder, time.Hour)
}

// move makes time pass for the key.
func (d desk) move(statement string) {
	d.Helper()
	tag, err := d.owner.Exec(d.Context(), statement, d.request.Scope, d.request.Key)
	require.NoError(d, err)
	require.EqualValues(d, 1, tag.RowsAffected())
}

func created(body string) guard.Response {
	return guard.Response{Status: 201, Headers: map[string]string{"Content-Type": "text/plain"}, Body: []byte(body)}
}

func everyOutcome(d desk) {
	claimed := d.claim(d.app)
	require.Equal(d, guard.Result{Outcome: guard.Claimed, Fence: claimed.Fence}, claimed)
	require.Positive(d, claimed.Fence)

	running := d.claim(d.app)
	require.Equal(d, guard.Result{Outcome: guard.Conflict, RetryAfter: running.RetryAfter}, running)
	require.Positive(d, running.RetryAfter)
	require.LessOrEqual(d, running.RetryAfter, time.Second)
	require.Equal(d, guard.Result{Outcome: guard.Mismatch}, d.other().claim(d.app), "mismatch wins over conflict")

	completed := d.complete(d.app, claimed.Fence, created("first"))
	require.Equal(d, guard.Result{Outcome: guard.Completed, Fence: claimed.Fence, Response: created("first")}, completed)
	replay := guard.Result{Outcome: guard.Replay, Response: created("first")}
	require.Equal(d, replay, d.claim(d.app))
	require.Equal(d, replay, d.complete(d.app, claimed.Fence, created("second")), "the first completion stands")
	require.Equal(d, guard.Result{Outcome: guard.Mismatch}, d.other().claim(d.app))

	d.request.Path = "POST /v1/refunds"
	require.Equal(d, guard.Result{Outcome: guard.Mismatch}, d.claim(d.app), "the path counts")
	d.request.Scope += "'"
	require.Equal(d, guard.Claimed, d.claim(d.app).Outcome, "another scope is another key")
}

// manySessions lets sessions loose on one key at the same moment, again and
// again.
func manySessions(d desk) {
	const sessions, rounds = 50, 4
	conns := make([]*pgx.Conn, sessions)
	for i := range conns {
		conns[i] = d.connect(d.target.App)
	}
	for round := range rounds {
		d.request.Key = fmt.Sprintf("round %d", round)
		results := d.rush(conns)
		won := results[guard.Claimed]
		require.Equal(d, 1, won, "winners of round %d", round)
		require.Equal(d, sessions-1, results[guard.Conflict])
		if round%2 == 0 {
			continue
		}
		d.move(endLeaseSQL)
		results = d.rush(conns)
		require.Equal(d, 1, results[guard.Claimed], "takeovers of round %d", round)
		require.Equal(d, sessions-1, results[guard.Conflict])
	}
}

func (d desk) rush(conns []*pgx.Conn) map[guard.Outcome]int {
	var mutex sync.Mutex
	results := map[guard.Outcome]int{}
	var group sync.WaitGroup
	barrier := make(chan struct{})
	for _, conn := range conns {
		group.Go(func() {
			<-barrier
			result, err := guard.Claim(d.Context(), conn, d.request, time.Hour, 24*time.Hour)
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil {
				d.Errorf("claim: %v", err)
			}
			results[result.Outcome]++
		})
	}
	close(barrier)
	group.Wait()
	return results
}

func deadHolder(d desk) {
	dead := d.claim(d.app)
	require.Equal(d, guard.Conflict, d.claim(d.app).Outcome, "while its lease runs")
	d.move(endLeaseSQL)
	require.Equal(d, guard.Mismatch, d.other().claim(d.app).Outcome, "its request alone may take over")
	next := d.claim(d.app)
	require.Equal(d, guard.Result{Outcome: guard.Claimed, Fence: dead.Fence + 1, Recovered: true}, next)
	require.Equal(d, guard.Conflict, d.claim(d.app).Outcome, "while the new lease runs")
}

func staleHolder(d desk) {
	stale := d.claim(d.app).Fence
	d.move(endLeaseSQL)
	newest := d.claim(d.app).Fence

	refuse := func(when string) {
		require.False(d, d.yes(guard.Release, stale), "release %s", when)
		require.False(d, d.yes(guard.Abandon, stale), "abandon %s", when)
		require.False(d, d.yes(extendByHour, stale), "extend %s", when)
	}
	require.Equal(d, guard.Conflict, d.complete(d.app, stale, created("stale")).Outcome)
	refuse("while the new holder is at work")
	require.Equal(d, guard.Completed, d.complete(d.app, newest, created("winner")).Outcome)
	require.Equal(d, guard.Result{Outcome: guard.Replay, Response: created("winner")},
		d.complete(d.app, stale, created("stale")), "both answer the same")
	refuse("after the new holder completed")
	require.Equal(d, created("winner"), d.claim(d.app).Response)
}

func extendedLease(d desk) {
	fence := d.claim(d.app).Fence
	d.move(endLeaseSQL)
	require.True(d, d.yes(extendByHour, fence), "nobody took it over")
	require.Equal(d, guard.Conflict, d.claim(d.app).Outcome)
	require.Equal(d, guard.Completed, d.complete(d.app, fence, created("done")).Outcome)
	require.False(d, d.yes(extendByHour, fence))
}

func pastItsLife(d desk) {
	first := d.claim(d.app).Fence
	d.move(expireKeySQL)
	require.Equal(d, guard.Mismatch, d.other().claim(d.app).Outcome, "its holder is still at work")
	require.Equal(d, guard.Completed, d.complete(d.app, first, created("late")).Outcome)
	require.Equal(d, created("late"), d.claim(d.app).Response, "late work is replayed too")

	d.move(expireKeySQL)
	second := d.other().claim(d.app)
	require.Equal(d, guard.Result{Outcome: guard.Claimed, Fence: first + 1}, second)
	d.move(endLeaseSQL)
	d.move(expireKeySQL)
	require.Equal(d, guard.Result{Outcome: guard.Claimed, Fence: first + 2, Recovered: true}, d.claim(d.app),
		"never completed: its money may have moved")
}

func sameBytes(d desk) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, body := range map[string][]byte{
		"every byte": all,
		"json":       []byte(`{"n": 12345678901234567890.10, "a": 1, "a": 2 }` + "\n"),
		"nothing":    {},
		"large":      bytes.Repeat(all, 400),
	} {
		d.request.Key = strings.Repeat("鍵", 200) + name
		response := guard.Response{Status: 599, Headers: map[string]string{"Location": "/é", "ETag": `"1"`}, Body: body}
		completed := d.complete(d.app, d.claim(d.app).Fence, response)
		require.Equal(d, response, completed.Response, name)
		require.Equal(d, response, d.claim(d.app).Response, name)
	}
}

func releasedKey(d desk) {
	first := d.claim(d.app)
	require.True(d, d.yes(guard.Release, first.Fence))
	require.False(d, d.yes(guard.Release, first.Fence))
	require.Equal(d, guard.Result{Outcome: guard.Gone}, d.complete(d.app, first.Fence, created("gone")))
	second := d.other().claim(d.app)
	require.Equal(d, guard.Result{Outcome: guard.Claimed, Fence: second.Fence}, second)
	require.Greater(d, second.Fence, first.Fence)
	require.False(d, d.yes(guard.Release, first.Fence), "the old number is worth nothing")
}

func abandonedKey(d desk) {
	first := d.claim(d.app).Fence
	require.True(d, d.yes(guard.Abandon, first))
	require.Equal(d, guard.Result{Outcome: guard.Claimed, Fence: first + 1, Recovered: true}, d.claim(d.app))
	require.False(d, d.yes(guard.Abandon, first))
}

// begin opens a transaction and tells its backend, which behind a pooler is
// another one each time.
func (d desk) begin(options pgx.TxOptions) (pgx.Tx, int32) {
	d.Helper()
	tx, err := d.connect(d.target.App).BeginTx(d.Context(), options)
	require.NoError(d, err)
	d.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(d.Context())) })
	var pid int32
	require.NoError(d, tx.QueryRow(d.Context(), `SELECT pg_backend_pid()`).Scan(&pid))
	return tx, pid
}

// waiting starts a claim and comes back when it waits for a lock.
func (d desk) waiting(tx pgx.Tx, pid int32) <-chan claimed {
	d.Helper()
	results := make(chan claimed, 1)
	go func() {
		result, err := guard.Claim(d.Context(), tx, d.request, time.Hour, 24*time.Hour)
		results <- claimed{result, err}
	}()
	require.Eventually(d, func() bool {
		var waits bool
		err := d.owner.QueryRow(d.Context(), `SELECT cardinality(pg_blocking_pids($1)) > 0`, pid).Scan(&waits)
		return err == nil && waits
	}, quietTimeout, patience)
	return results
}

type claimed struct {
	guard.Result
	err error
}

func wholeTransaction(d desk) {
	first, _ := d.begin(pgx.TxOptions{})
	second, pid := d.begin(pgx.TxOptions{})
	fence := d.claim(first).Fence
	results := d.waiting(second, pid)
	require.Equal(d, guard.Completed, d.complete(first, fence, created("first")).Outcome)
	require.NoError(d, first.Commit(d.Context()))
	result := <-results
	require.NoError(d, result.err)
	require.Equal(d, guard.Result{Outcome: guard.Replay, Response: created("first")}, result.Result)
}

func lockTimeout(d desk) {
	first, _ := d.begin(pgx.TxOptions{})
	second, _ := d.begin(pgx.TxOptions{})
	fence := d.claim(first).Fence
	_, err := second.Exec(d.Context(), `SET LOCAL lock_timeout = '20ms'`)
	require.NoError(d, err)
	_, err = guard.Claim(d.Context(), second, d.request, time.Hour, 24*time.Hour)
	require.Equal(d, "55P03", guard.SQLState(err), "%v", err)
	require.NoError(d, second.Rollback(d.Context()))
	require.Equal(d, guard.Completed, d.complete(first, fence, created("first")).Outcome)
	require.NoError(d, first.Commit(d.Context()))
	require.Equal(d, guard.Replay, d.claim(d.app).Outcome)
}

func rolledBack(d desk) {
	first, _ := d.begin(pgx.TxOptions{})
	second, pid := d.begin(pgx.TxOptions{})
	fence := d.claim(first).Fence
	results := d.waiting(second, pid)
	require.Equal(d, guard.Completed, d.complete(first, fence, created("first")).Outcome)
	require.NoError(d, first.Rollback(d.Context()))
	result := <-results
	require.NoError(d, result.err)
	require.Equal(d, guard.Result{Outcome: guard.Claimed, Fence: result.Fence}, result.Result)
	require.Equal(d, guard.Completed, d.complete(second, result.Fence, created("second")).Outcome)
	require.NoError(d, second.Commit(d.Context()))
	require.Equal(d, created("second"), d.claim(d.app).Response)
}

func everyLevel(d desk) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadUncommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		d.request.Key = string(level)
		tx, _ := d.begin(pgx.TxOptions{IsoLevel: level})
		fence := d.claim(tx).Fence
		extended, err := guard.Extend(d.Context(), tx, d.holder(fence), time.Hour)
		require.NoError(d, err)
		require.True(d, extended)
		require.Equal(d, guard.Conflict, d.claim(tx).Outcome)
		require.Equal(d, guard.Conflict, d.complete(tx, fence-1, created("stale")).Outcome)
		require.Equal(d, guard.Completed, d.complete(tx, fence, created("done")).Outcome)
		require.Equal(d, guard.Replay, d.complete(tx, fence, created("again")).Outcome)
		require.Equal(d, guard.Replay, d.claim(tx).Outcome)
		d.request.Key += " released"
		fence = d.claim(tx).Fence
		abandoned, err := guard.Abandon(d.Context(), tx, d.holder(fence))
		require.NoError(d, err)
		require.True(d, abandoned)
		next := d.claim(tx)
		require.Equal(d, guard.Result{Outcome: guard.Claimed, Fence: fence + 1, Recovered: true}, next)
		released, err := guard.Release(d.Context(), tx, d.holder(next.Fence))
		require.NoError(d, err)
		require.True(d, released)
		require.Equal(d, guard.Gone, d.complete(tx, fence, created("gone")).Outcome)
		require.NoError(d, tx.Commit(d.Context()))
		require.Equal(d, guard.Claimed, d.claim(d.app).Outcome)
		d.request.Key = string(level)
		require.Equal(d, created("done"), d.claim(d.app).Response)
	}
}

func badArguments(d desk) {
	ctx := d.Context()
	tooLong := strings.Repeat("k", 256)
	claim := func(change func(*guard.Request), lease, life time.Duration) error {
		request := d.request
		change(&request)
		_, err := guard.Claim(ctx, d.app, request, lease, life)
		return err
	}
	_, completeErr := guard.Complete(ctx, d.app, d.holder(1), guard.Response{Status: 99})
	for state, err := range map[string]error{
		guard.InvalidScope:       claim(func(r *guard.Request) { r.Scope = "" }, time.Hour, time.Hour),
		guard.InvalidKey:         claim(func(r *guard.Request) { r.Key = tooLong }, time.Hour, time.Hour),
		guard.InvalidRequestPath: claim(func(r *guard.Request) { r.Path = "" }, time.Hour, time.Hour),
		guard.InvalidRequestHash: claim(func(r *guard.Request) { r.Hash = []byte("short") }, time.Hour, time.Hour),
		guard.InvalidLease:       claim(func(*guard.Request) {}, 0, time.Hour),
		guard.InvalidTTL:         claim(func(*guard.Request) {}, time.Hour, time.Minute),
		guard.InvalidStatus:      completeErr,
	} {
		require.Equal(d, state, guard.SQLState(err), "%v", err)
	}
}

func purgeFromApp(d desk) {
	make := func(key string, statements ...string) int64 {
		d.request.Key = key
		fence := d.claim(d.app).Fence
		for _, statement := range statements {
			d.move(statement)
		}
		return fence
	}
	make("held past its life", expireKeySQL)
	make("in doubt past its life, within the grace", endLeaseSQL, expireKeySQL)
	make("fresh")
	done := make("completed past its life")
	d.complete(d.app, done, created("done"))
	d.move(expireKeySQL)

	_, err := d.app.Exec(d.Context(), `CALL guard.purge()`)
	require.NoError(d, err)
	rows, err := d.owner.Query(d.Context(),
		`SELECT key FROM guard.idempotency_keys WHERE scope = $1 ORDER BY key`, d.request.Scope)
	require.NoError(d, err)
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(d, err)
	require.Equal(d, []string{"fresh", "held past its life", "in doubt past its life, within the grace"}, left)
}
