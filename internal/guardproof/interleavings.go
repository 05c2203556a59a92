package guardproof

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/payonce/payonce/internal/guard"
)

// part is one transaction of a session.
type part []call

// program is what one session does: transactions one after the other, or one
// step of the clock.
type program []part

const (
	// initialFence is the number of the claim that stands at the start.
	initialFence = 7
	// ownFence in a program is the number that the session's own claim gets;
	// when that claim gets none, the session stops there.
	ownFence = -1
	// requests is how many different requests there are.
	requests = 3
)

// plan is a set of schedules: every order in which the sessions' steps can
// happen, from one initial state.
type plan struct {
	initial  state
	programs []program
	level    pgx.TxIsoLevel
	// snapshot: each transaction takes its snapshot in a step of its own,
	// before its first call.
	snapshot bool
	// rollbacks: each transaction that wrote both commits and rolls back.
	rollbacks bool
}

// interleave runs plans in several copies of a database at once, and tells how
// many schedules that were.
func interleave(ctx context.Context, target Target, plans []plan, copies int) (explored int, err error) {
	var total atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for share := range copies {
		copied, drop, err := target.cloneStepped(ctx)
		if err != nil {
			return 0, err
		}
		group.Go(func() error {
			defer func() { _ = drop(context.WithoutCancel(ctx)) }()
			w, err := newWorker(ctx, copied)
			if err != nil {
				return err
			}
			defer w.close(context.WithoutCancel(ctx))
			for i := share; i < len(plans); i += copies {
				if err := w.explore(ctx, plans[i]); err != nil {
					return err
				}
			}
			total.Add(int64(w.explored))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("interleave: %w", err)
	}
	return int(total.Load()), nil
}

// worker runs plans in a database with a stepped clock.
type worker struct {
	*stepper
	explored int
}

// mostSessions is how many sessions a plan has at most.
const mostSessions = 3

func newWorker(ctx context.Context, target Target) (*worker, error) {
	s, err := newStepper(ctx, target, mostSessions)
	if err != nil {
		return nil, err
	}
	return &worker{stepper: s}, nil
}

// explore runs every schedule of a plan and checks each against the model.
// The error of the first that the model cannot explain tells its steps.
func (w *worker) explore(ctx context.Context, p plan) error {
	choices := &chooser{}
	for {
		run := &schedule{worker: w, plan: p, choices: choices, progress: make([]progress, len(p.programs))}
		if err := run.play(ctx); err != nil {
			return fmt.Errorf("%s, from %+v:\n%s%w", p.level, p.initial, run.log.String(), err)
		}
		w.explored++
		if !choices.next() {
			return nil
		}
	}
}

// schedule is one order of steps, while it is played.
type schedule struct {
	*worker
	plan
	choices  *chooser
	progress []progress
	history  []porcupine.Operation
	tick     int64
	hour     int
	log      strings.Builder
}

// progress is how far a session has come.
type progress struct {
	program program
	begun   bool
	calling bool
	started int64
	calls   []call
	answers []answer
	fence   int64
}

func (s *schedule) play(ctx context.Context) error {
	if err := begin(ctx, s.observer, s.initial); err != nil {
		return err
	}
	for i := range s.progress {
		s.progress[i].program = s.programs[i]
	}
	for {
		ready := s.ready()
		if len(ready) == 0 {
			break
		}
		s.tick += 2
		if err := s.advance(ctx, ready[s.choices.pick(len(ready))]); err != nil {
			return err
		}
		if err := s.takeAnswers(ctx); err != nil {
			return err
		}
	}
	for i := range s.progress {
		if s.waits(i) {
			return errors.New("all sessions wait for each other")
		}
	}
	return s.judge(ctx)
}

// ready lists the sessions that can take a step. Of two that run the same
// program only the first may start: swapping them changes nothing.
func (s *schedule) ready() []int {
	var ready []int
	for i, p := range s.progress {
		if len(p.program) == 0 || s.waits(i) {
			continue
		}
		if i > 0 && !p.begun && &s.programs[i][0] == &s.programs[i-1][0] && s.untouched(i) && s.untouched(i-1) {
			continue
		}
		ready = append(ready, i)
	}
	return ready
}

func (s *schedule) untouched(i int) bool {
	return !s.progress[i].begun && len(s.progress[i].program) == len(s.programs[i])
}

// advance takes the next step of a session: the clock's step, or the
// transaction's snapshot, next call or end.
func (s *schedule) advance(ctx context.Context, i int) error {
	p := &s.progress[i]
	next := p.program[0]
	if next[0].do == passTime {
		p.program = nil
		s.hour = max(s.hour, next[0].hour)
		s.note(i, next[0].String())
		s.record(i, s.tick, transaction{calls: next}, []answer{{}})
		return s.observe(ctx, `SELECT proof.pass_time($1)`, next[0].hour)
	}
	var db guard.DB = s.sessions[i].conn
	if !p.begun {
		p.begun, p.started, p.calls, p.answers = true, s.tick, nil, nil
		if s.snapshot {
			s.note(i, "snapshot")
			return s.takeSnapshot(ctx, i)
		}
		db = beginning{s.sessions[i].conn, s.level}
	}
	if len(p.calls) == len(next) {
		return s.end(ctx, i, s.rollbacks && s.choices.pick(2) == 1)
	}
	c := next[len(p.calls)]
	if c.fence == ownFence {
		c.fence = p.fence
	}
	c.since = s.hour
	p.calls, p.calling = append(p.calls, c), true
	s.note(i, c.String())
	return s.start(ctx, i, func(ctx context.Context, _ *pgx.Conn) (answer, error) { return perform(ctx, db, c) })
}

func (s *schedule) takeSnapshot(ctx context.Context, i int) error {
	statement := "BEGIN ISOLATION LEVEL " + string(s.level) + "; SELECT 1"
	if _, err := s.sessions[i].conn.PgConn().Exec(ctx, statement).ReadAll(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	return nil
}

// beginning begins a transaction with the round trip of its first call.
type beginning struct {
	conn  *pgx.Conn
	level pgx.TxIsoLevel
}

func (b beginning) QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row {
	batch := &pgx.Batch{}
	batch.Queue("BEGIN ISOLATION LEVEL " + string(b.level))
	batch.Queue(sql, arguments...)
	return begunRow{b.conn.SendBatch(ctx, batch)}
}

type begunRow struct{ results pgx.BatchResults }

func (r begunRow) Scan(targets ...any) error {
	if _, err := r.results.Exec(); err != nil {
		return errors.Join(fmt.Errorf("begin: %w", err), r.results.Close())
	}
	return errors.Join(r.results.QueryRow().Scan(targets...), r.results.Close())
}

// takeAnswers looks at the calls that have returned since the last step.
func (s *schedule) takeAnswers(ctx context.Context) error {
	for again := true; again; {
		again = false
		for i := range s.progress {
			if s.progress[i].calling && !s.waits(i) {
				again = true
				if err := s.takeAnswer(ctx, i); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *schedule) takeAnswer(ctx context.Context, i int) error {
	p, last := &s.progress[i], s.sessions[i].last
	p.calling = false
	if last.err != nil {
		s.note(i, "-> "+last.err.Error())
		return s.fail(ctx, i, last.err)
	}
	s.note(i, "-> "+last.answer.String())
	p.answers = append(p.answers, last.answer)
	if last.answer.outcome == guard.Claimed {
		p.fence = last.answer.fence
	}
	if p.calls[len(p.calls)-1].do == claim && last.answer.outcome != guard.Claimed {
		p.program = []part{p.calls}
	}
	// A transaction that wrote nothing holds no lock: when it ends makes no
	// difference to anybody, so that it ends now.
	if len(p.calls) == len(p.program[0]) && !p.wrote() {
		return s.end(ctx, i, false)
	}
	return nil
}

func (p *progress) wrote() bool {
	for _, a := range p.answers {
		if a.wrote() {
			return true
		}
	}
	return false
}

// end commits or rolls back.
func (s *schedule) end(ctx context.Context, i int, rollBack bool) error {
	p := &s.progress[i]
	statement := "COMMIT"
	if rollBack {
		statement = "ROLLBACK"
	}
	s.note(i, statement)
	if _, err := s.sessions[i].conn.Exec(ctx, statement); err != nil {
		return s.fail(ctx, i, err)
	}
	s.record(i, p.started, transaction{calls: p.calls, rolledBack: rollBack}, p.answers)
	p.begun, p.program = false, p.program[1:]
	if rollBack {
		p.program = nil
	}
	return s.settle(ctx)
}

// fail ends a session whose transaction the database refused, which it may do
// only above READ COMMITTED. The transaction has then happened nowhere.
func (s *schedule) fail(ctx context.Context, i int, err error) error {
	if s.level == pgx.ReadCommitted || guard.SQLState(err) != serializationFailure {
		return err
	}
	s.progress[i].begun, s.progress[i].program = false, nil
	if _, err := s.sessions[i].conn.Exec(ctx, "ROLLBACK"); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	return s.settle(ctx)
}

const serializationFailure = "40001"

func (s *schedule) record(client int, started int64, done transaction, answers []answer) {
	s.history = append(s.history, porcupine.Operation{
		ClientId: client, Input: done, Call: started, Output: answers, Return: s.tick + 1,
	})
}

// judge reads the row that remains and asks the model to explain it all.
func (s *schedule) judge(ctx context.Context) error {
	// A moment after every reading in this hour.
	now := epoch.Add(time.Duration(s.hour)*time.Hour + time.Second)
	left, err := readRow(ctx, s.observer, 0, &now)
	if err != nil {
		return err
	}
	s.tick += 2
	s.record(len(s.programs), s.tick, transaction{calls: part{{do: look}}}, []answer{{row: left}})
	if err := repeatedFence(s.history); err != nil {
		return err
	}
	if !porcupine.CheckOperations(model(s.initial), s.history) {
		return fmt.Errorf("no serial order explains this; left: %+v", left)
	}
	return nil
}

func (s *schedule) observe(ctx context.Context, sql string, arguments ...any) error {
	if _, err := s.observer.Exec(ctx, sql, arguments...); err != nil {
		return fmt.Errorf("step the clock: %w", err)
	}
	return nil
}

func (s *schedule) note(i int, what string) { fmt.Fprintf(&s.log, "  session %d: %s\n", i, what) }

// chooser walks through a tree of choices, one path a run, depth first. Two
// sessions that wake at once may do so in either order, so that a run can have
// fewer choices than the last one had at the same place.
type chooser struct {
	path  []choice
	depth int
}

type choice struct{ picked, of int }

func (c *chooser) pick(of int) int {
	if c.depth == len(c.path) {
		c.path = append(c.path, choice{0, of})
	}
	at := &c.path[c.depth]
	c.depth++
	if at.picked >= of {
		return of - 1
	}
	at.of = of
	return at.picked
}

// next goes to the next path; false when there is none.
func (c *chooser) next() bool {
	c.path = c.path[:c.depth]
	c.depth = 0
	for len(c.path) > 0 {
		last := &c.path[len(c.path)-1]
		if last.picked+1 < last.of {
			last.picked++
			return true
		}
		c.path = c.path[:len(c.path)-1]
	}
	return false
}
