package guardproof

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
)

// The steps of a work in two transactions. A kill comes after each.
var workSteps = []string{"nothing", "begin", "claim", "commit", "begin again", "complete", "commit again"}

const (
	claimCommitted      = 3
	completionCommitted = 6
)

// walk takes a work's first steps and tells the claim's fence.
func walk(d desk, conn *pgx.Conn, steps int) (fence int64) {
	d.Helper()
	for step := 1; step <= steps; step++ {
		var err error
		switch step {
		case 1, 4:
			_, err = conn.Exec(d.Context(), "BEGIN")
		case 2:
			fence = d.claim(conn).Fence
		case 5:
			d.complete(conn, fence, created("done"))
		case claimCommitted, completionCommitted:
			_, err = conn.Exec(d.Context(), "COMMIT")
		}
		require.NoError(d, err)
	}
	return fence
}

// afterKill asks, as the client's retry would: what was committed is there,
// what was not has no effect, and the lease's end sets the key free.
func afterKill(d desk, steps int, fence int64) {
	d.Helper()
	switch {
	case steps >= completionCommitted:
		require.Equal(d, guard.Result{Outcome: guard.Replay, Response: created("done")}, d.claim(d.app))
	case steps >= claimCommitted:
		require.Equal(d, guard.Conflict, d.claim(d.app).Outcome)
		d.move(endLeaseSQL)
		require.Equal(d, guard.Result{Outcome: guard.Claimed, Fence: fence + 1, Recovered: true}, d.claim(d.app))
	default:
		result := d.claim(d.app)
		require.Equal(d, guard.Result{Outcome: guard.Claimed, Fence: result.Fence}, result)
	}
}

// TestBackendKilled terminates the holder's backend after each step of its
// work, in uncommitted ones while another session waits for it.
func TestBackendKilled(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	for steps, name := range workSteps {
		t.Run("after "+name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, target)
			holder := d.connect(target.App)
			fence := walk(d, holder, steps)
			var waiter <-chan claimed
			if steps == 2 {
				tx, pid := d.begin(pgx.TxOptions{})
				waiter = d.waiting(tx, pid)
				defer func() { require.NoError(t, tx.Commit(t.Context())) }()
			}
			_, err := d.owner.Exec(t.Context(), `SELECT pg_terminate_backend($1, 30000)`, holder.PgConn().PID())
			require.NoError(t, err)
			if waiter != nil {
				result := <-waiter
				require.NoError(t, result.err)
				require.Equal(t, guard.Claimed, result.Outcome)
				return
			}
			afterKill(d, steps, fence)
		})
	}
}

// TestWaiterKilled: a claim that is killed while it waits leaves nothing.
func TestWaiterKilled(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newTarget(t))
	holder := d.connect(d.target.App)
	fence := walk(d, holder, 2)
	tx, pid := d.begin(pgx.TxOptions{})
	results := d.waiting(tx, pid)
	_, err := d.owner.Exec(t.Context(), `SELECT pg_terminate_backend($1, 30000)`, pid)
	require.NoError(t, err)
	require.Error(t, (<-results).err)
	_, err = holder.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	afterKill(d, claimCommitted, fence)
}

// TestServerKilled kills the server with SIGKILL, with one work standing after
// each of its steps, and looks when it is up again.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgtest.Durable())
	target := targetOf(t, server.New(t))
	var works []desk
	var fences []int64
	for steps, name := range workSteps {
		d := newDesk(t, target).key(name)
		works = append(works, d)
		fences = append(fences, walk(d, d.connect(target.App), steps))
	}
	server.Kill()
	server.Restart(t)
	for steps, d := range works {
		d.app, d.owner = d.connect(target.App), d.connect(target.Owner)
		afterKill(d, steps, fences[steps])
	}
}

// TestServerKilledUnderLoad kills the server at any moment, again and again,
// and compares what it acknowledged with what it still knows.
func TestServerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgtest.Durable())
	target := targetOf(t, server.New(t))
	for round := range 3 {
		acknowledged := loadAndKill(t, server, target, round)
		claims, completions, err := acknowledged.verify(t.Context(), target)
		require.NoError(t, err)
		t.Logf("round %d: %d claims and %d completions acknowledged, none lost", round, claims, completions)
	}
}

// TestLostCommitsAreSeen: with asynchronous commits the same check fails.
func TestLostCommitsAreSeen(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgtest.Durable(),
		pgtest.WithSetting("synchronous_commit", "off"), pgtest.WithSetting("wal_writer_delay", "10s"))
	target := targetOf(t, server.New(t))
	_, _, err := loadAndKill(t, server, target, 0).verify(t.Context(), target)
	require.ErrorIs(t, err, errLost)
}

// acknowledgements are what clients were told before the server died.
type acknowledgements struct {
	mutex sync.Mutex
	works []*acknowledgement
}

type acknowledgement struct {
	request   guard.Request
	response  guard.Response
	fence     int64
	completed bool
}

const ackBeforeKill = 200

// loadAndKill lets sessions work until enough was acknowledged, and kills the
// server while they go on.
func loadAndKill(t *testing.T, server *pgtest.Instance, target Target, round int) *acknowledgements {
	t.Helper()
	a := &acknowledgements{}
	enough := make(chan struct{})
	var once sync.Once
	var group sync.WaitGroup
	for session := range 4 {
		conn, err := pgx.ConnectConfig(t.Context(), target.App)
		require.NoError(t, err)
		group.Go(func() {
			defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
			for n := 0; a.work(t.Context(), conn, fmt.Sprint(round, " ", session, " ", n)); n++ {
				if n == ackBeforeKill {
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	<-enough
	server.Kill()
	group.Wait()
	server.Restart(t)
	return a
}

// work claims and completes a key and notes each acknowledgement; false when
// the server is gone.
func (a *acknowledgements) work(ctx context.Context, conn *pgx.Conn, key string) bool {
	w := &acknowledgement{
		request:  guard.Request{Scope: "killed", Key: key, Path: "POST /v1/charges", Hash: sum(key)},
		response: guard.Response{Status: 201, Headers: map[string]string{}, Body: []byte(key)},
	}
	a.mutex.Lock()
	a.works = append(a.works, w)
	a.mutex.Unlock()
	result, err := guard.Claim(ctx, conn, w.request, time.Hour, 24*time.Hour)
	if err != nil {
		return false
	}
	w.fence = result.Fence
	holder := guard.Holder{Scope: w.request.Scope, Key: key, Fence: w.fence}
	if _, err := guard.Complete(ctx, conn, holder, w.response); err != nil {
		return false
	}
	w.completed = true
	return true
}

var errLost = errors.New("acknowledged, and lost")

// verify retries every work: first at once, then after its lease.
func (a *acknowledgements) verify(ctx context.Context, target Target) (claims, completions int, err error) {
	conn, err := pgx.ConnectConfig(ctx, target.Owner)
	if err != nil {
		return 0, 0, fmt.Errorf("connect as owner: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, w := range a.works {
		result, err := guard.Claim(ctx, conn, w.request, time.Hour, 24*time.Hour)
		if err != nil {
			return 0, 0, err
		}
		replayed := result.Outcome == guard.Replay && string(result.Response.Body) == string(w.response.Body)
		switch {
		case w.completed && !replayed:
			return 0, 0, fmt.Errorf("completion: %w: %s", errLost, result.Outcome)
		case w.fence != 0 && !replayed && result.Outcome != guard.Conflict:
			return 0, 0, fmt.Errorf("claim: %w: %s", errLost, result.Outcome)
		}
		if w.completed {
			completions++
		}
		if w.fence != 0 {
			claims++
		}
		if _, err := conn.Exec(ctx, endLeaseSQL, w.request.Scope, w.request.Key); err != nil {
			return 0, 0, fmt.Errorf("end the lease: %w", err)
		}
		result, err = guard.Claim(ctx, conn, w.request, time.Hour, 24*time.Hour)
		if err != nil {
			return 0, 0, err
		}
		if result.Outcome != guard.Claimed && !replayed {
			return 0, 0, fmt.Errorf("a key is stuck past its lease: %s %s", result.Outcome, strconv.Quote(w.request.Key))
		}
	}
	return claims, completions, nil
}
