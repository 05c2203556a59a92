package guardproof

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// stepper runs calls in several sessions, one step at a time. A step is over
// when its call has returned or waits for a lock that no running call can
// release; so a schedule means the same on every run, without any sleep.
type stepper struct {
	observer *pgx.Conn
	sessions []*session
}

// session is one connection and its call that has not returned, if any.
type session struct {
	conn    *pgx.Conn
	pending chan outcome
	// last is what the last call that has returned said.
	last outcome
}

type outcome struct {
	answer answer
	err    error
}

// quietTimeout is how long a step may take before something is surely wrong.
const quietTimeout = 30 * time.Second

// patience saves asking the database about calls that are just returning.
const patience = time.Millisecond

func newStepper(ctx context.Context, target Target, sessions int) (*stepper, error) {
	observer, err := pgx.ConnectConfig(ctx, target.Owner)
	if err != nil {
		return nil, fmt.Errorf("connect the observer: %w", err)
	}
	s := &stepper{observer: observer}
	for range sessions {
		conn, err := pgx.ConnectConfig(ctx, target.App)
		if err != nil {
			s.close(ctx)
			return nil, fmt.Errorf("connect a session: %w", err)
		}
		s.sessions = append(s.sessions, &session{conn: conn})
	}
	return s, nil
}

func (s *stepper) close(ctx context.Context) {
	for _, session := range s.sessions {
		_ = session.conn.Close(ctx)
	}
	_ = s.observer.Close(ctx)
}

// start begins a call and waits until every session has returned or waits.
func (s *stepper) start(ctx context.Context, i int, run func(context.Context, *pgx.Conn) (answer, error)) error {
	session := s.sessions[i]
	pending := make(chan outcome, 1)
	session.pending = pending
	go func() {
		a, err := run(ctx, session.conn)
		pending <- outcome{a, err}
	}()
	session.await()
	return s.settle(ctx)
}

func (s *stepper) waits(i int) bool { return s.sessions[i].pending != nil }

// settle waits until no call can go on by itself.
func (s *stepper) settle(ctx context.Context) error {
	deadline := time.Now().Add(quietTimeout)
	for {
		running := s.collect()
		if len(running) == 0 {
			return nil
		}
		stuck, err := s.allStuck(ctx, running)
		if err != nil {
			return err
		}
		if stuck {
			return nil
		}
		s.awaitAny()
		if time.Now().After(deadline) {
			return fmt.Errorf("a call neither returned nor waited for a lock within %s", quietTimeout)
		}
	}
}

// await takes in a call that returns soon, as most do.
func (s *session) await() {
	select {
	case s.last = <-s.pending:
		s.pending = nil
	case <-time.After(patience):
	}
}

// awaitAny gives the calls time before the database is asked again.
func (s *stepper) awaitAny() {
	for _, session := range s.sessions {
		if session.pending != nil {
			session.await()
			return
		}
	}
}

// collect takes in the calls that have returned and tells the backends of the
// others.
func (s *stepper) collect() []int64 {
	var running []int64
	for _, session := range s.sessions {
		if session.pending == nil {
			continue
		}
		select {
		case session.last = <-session.pending:
			session.pending = nil
		default:
			running = append(running, int64(session.conn.PgConn().PID()))
		}
	}
	return running
}

// allStuck tells whether each of the running backends waits for a session that
// was idle before the question, directly or through another that does.
func (s *stepper) allStuck(ctx context.Context, running []int64) (bool, error) {
	blockers := map[int64][]int64{}
	rows, err := s.observer.Query(ctx, `SELECT pid, pg_blocking_pids(pid) FROM unnest($1::int[]) AS pid`, running)
	if err != nil {
		return false, fmt.Errorf("ask who waits for whom: %w", err)
	}
	var pid int64
	var by []int64
	if _, err := pgx.ForEachRow(rows, []any{&pid, &by}, func() error {
		blockers[pid] = append([]int64(nil), by...)
		return nil
	}); err != nil {
		return false, fmt.Errorf("ask who waits for whom: %w", err)
	}
	stuck := map[int64]bool{}
	for range running {
		for pid, by := range blockers {
			for _, blocker := range by {
				_, runs := blockers[blocker]
				if !runs || stuck[blocker] {
					stuck[pid] = true
				}
			}
		}
	}
	return len(stuck) == len(running), nil
}
