package guardproof

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/payonce/payonce/internal/guard"
)

// overlap plays transactions of three sessions, each on a key of its own, in
// every order. Sessions on different keys may neither wait for nor fail each
// other, whatever their isolation level.
type overlap struct {
	owner    *pgx.Conn
	sessions []*pgx.Conn
	level    pgx.TxIsoLevel
	// large fills a table page with a few keys.
	large   guard.Response
	rounds  int
	request guard.Request
}

func newOverlap(ctx context.Context, target Target, level pgx.TxIsoLevel) (*overlap, error) {
	// Random, so that it does not shrink when it is stored.
	body := make([]byte, 1500)
	_, _ = rand.NewChaCha8([32]byte{}).Read(body)
	o := &overlap{
		level: level, request: requestOf(0, 1),
		large: guard.Response{Status: 200, Headers: map[string]string{}, Body: body},
	}
	var err error
	if o.owner, err = pgx.ConnectConfig(ctx, target.Owner); err != nil {
		return nil, fmt.Errorf("connect as owner: %w", err)
	}
	// Full pages make updates move rows, and so write to the index too.
	if _, err := o.owner.Exec(ctx, `ALTER TABLE guard.idempotency_keys SET (fillfactor = 100)`); err != nil {
		return nil, fmt.Errorf("fill the pages: %w", err)
	}
	for range 3 {
		conn, err := pgx.ConnectConfig(ctx, target.App)
		if err != nil {
			o.close(ctx)
			return nil, fmt.Errorf("connect a session: %w", err)
		}
		o.sessions = append(o.sessions, conn)
	}
	return o, nil
}

func (o *overlap) close(ctx context.Context) {
	for _, conn := range append(o.sessions, o.owner) {
		_ = conn.Close(ctx)
	}
}

// ownKeyPrograms are all calls that write, by themselves and as a whole work.
// All but the first two begin with a key that is held.
func ownKeyPrograms() [][]verb {
	return [][]verb{{claim, complete}, {claim}, {complete}, {release}, {extend}, {abandon}}
}

// explore plays the programs, one a session, in every order of their steps.
func (o *overlap) explore(ctx context.Context, programs [][]verb) error {
	choices := &chooser{}
	for {
		if err := o.play(ctx, programs, choices.pick); err != nil {
			return err
		}
		if !choices.next() {
			return nil
		}
	}
}

// play runs one order of steps: each session begins with its first call and
// takes one more step to commit.
func (o *overlap) play(ctx context.Context, programs [][]verb, pick func(int) int) error {
	o.rounds++
	fences := make([]int64, len(programs))
	for i, program := range programs {
		if program[0] == claim {
			continue
		}
		result, err := guard.Claim(ctx, o.owner, o.requestFor(i), time.Hour, time.Hour)
		if err != nil {
			return err
		}
		fences[i] = result.Fence
	}
	done := make([]int, len(programs))
	var order []string
	for {
		var ready []int
		for i, program := range programs {
			twin := i > 0 && slices.Equal(program, programs[i-1])
			if done[i] <= len(program) && (!twin || done[i] > 0 || done[i-1] > 0) {
				ready = append(ready, i)
			}
		}
		if len(ready) == 0 {
			return nil
		}
		i := ready[pick(len(ready))]
		if err := o.advance(ctx, i, programs[i], done[i], &fences[i]); err != nil {
			order = append(order, fmt.Sprintf("session %d fails", i))
			for _, conn := range o.sessions {
				_, _ = conn.Exec(ctx, "ROLLBACK")
			}
			return fmt.Errorf("%s, sessions run %v, steps %v: %w", o.level, programs, order, err)
		}
		done[i]++
		order = append(order, fmt.Sprintf("session %d", i))
	}
}

func (o *overlap) advance(ctx context.Context, i int, program []verb, step int, fence *int64) error {
	conn := o.sessions[i]
	if step == len(program) {
		if _, err := conn.Exec(ctx, "COMMIT"); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	}
	if step == 0 {
		if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL "+string(o.level)); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
	}
	request := o.requestFor(i)
	holder := guard.Holder{Scope: request.Scope, Key: request.Key, Fence: *fence}
	var result guard.Result
	var yes bool
	var err error
	switch program[step] {
	case claim:
		result, err = guard.Claim(ctx, conn, request, time.Hour, time.Hour)
		*fence, yes = result.Fence, result.Outcome == guard.Claimed
	case complete:
		result, err = guard.Complete(ctx, conn, holder, o.large)
		yes = result.Outcome == guard.Completed
	case release:
		yes, err = guard.Release(ctx, conn, holder)
	case extend:
		yes, err = guard.Extend(ctx, conn, holder, time.Hour)
	case abandon:
		yes, err = guard.Abandon(ctx, conn, holder)
	default:
		return fmt.Errorf("%s is not a call on one key", program[step])
	}
	if err == nil && !yes {
		err = fmt.Errorf("%s was refused", program[step])
	}
	return err
}

func (o *overlap) requestFor(session int) guard.Request {
	request := o.request
	request.Key = fmt.Sprintf("round %d session %d", o.rounds, session)
	return request
}

// exploreWhole plays the whole work in one transaction, three times at once.
func (o *overlap) exploreWhole(ctx context.Context) error {
	return o.explore(ctx, slices.Repeat(ownKeyPrograms()[:1], len(o.sessions)))
}

// exploreAll plays every choice of programs for the sessions. The whole work,
// which has the most steps, takes part as three of itself.
func (o *overlap) exploreAll(ctx context.Context) error {
	programs := ownKeyPrograms()
	if err := o.exploreWhole(ctx); err != nil {
		return err
	}
	for i, first := range programs[1:] {
		for j, second := range programs[1+i:] {
			for _, third := range programs[1+i+j:] {
				if err := o.explore(ctx, [][]verb{first, second, third}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
