package guardproof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/payonce/payonce/internal/guard"
)

// historySize says how much happens in one random history: that many sessions
// at once make that many transactions each on that many keys.
type historySize struct {
	sessions, transactions, keys int
}

// checkTimeout bounds the search for one explanation; an undecided history is
// an error.
const checkTimeout = 20 * time.Second

// history is what really happened, with the times at which it did.
type history struct {
	start      time.Time
	mutex      sync.Mutex
	operations []porcupine.Operation
	// fences are the numbers that claims of each key were given, so that any
	// session may use any other's, old and new.
	fences    [][]int64
	responses int
}

// historian has the sessions that make histories.
type historian struct {
	size    historySize
	clients []client
}

// client is one session, and beside it the owner's connection that lets time
// pass and looks at rows.
type client struct {
	number     int
	app, owner *pgx.Conn
}

func newHistorian(ctx context.Context, target Target, size historySize) (*historian, error) {
	h := &historian{size: size}
	for number := range size.sessions {
		app, err := pgx.ConnectConfig(ctx, target.App)
		if err != nil {
			h.close(ctx)
			return nil, fmt.Errorf("connect a session: %w", err)
		}
		h.clients = append(h.clients, client{number: number, app: app})
		if h.clients[number].owner, err = pgx.ConnectConfig(ctx, target.Owner); err != nil {
			h.close(ctx)
			return nil, fmt.Errorf("connect as owner: %w", err)
		}
	}
	return h, nil
}

func (h *historian) close(ctx context.Context) {
	for _, c := range h.clients {
		_ = c.app.Close(ctx)
		if c.owner != nil {
			_ = c.owner.Close(ctx)
		}
	}
}

// record lets the sessions run against each other without any control over
// their order, checks the history key by key against the model, and tells how
// many transactions it had.
func (h *historian) record(ctx context.Context, seed uint64, level pgx.TxIsoLevel) (int, error) {
	if _, err := h.clients[0].owner.Exec(ctx, `DELETE FROM guard.idempotency_keys`); err != nil {
		return 0, fmt.Errorf("empty the table: %w", err)
	}
	made := &history{start: time.Now(), fences: make([][]int64, h.size.keys)}
	group, groupContext := errgroup.WithContext(ctx)
	for _, c := range h.clients {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(seed, uint64(c.number))) //nolint:gosec // repeatable on purpose
			return made.run(groupContext, c, h.size, random, level)
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("history of seed %d, %s: %w", seed, level, err)
	}
	if err := repeatedFence(made.operations); err != nil {
		return 0, fmt.Errorf("history of seed %d, %s: %w", seed, level, err)
	}
	for key := range h.size.keys {
		if err := made.check(key); err != nil {
			return 0, fmt.Errorf("history of seed %d, %s, key %d: %w", seed, level, key, err)
		}
	}
	return len(made.operations), nil
}

func (h *history) run(ctx context.Context, by client, size historySize, random *rand.Rand, level pgx.TxIsoLevel) error {
	for range size.transactions {
		var err error
		c := h.draw(random, random.IntN(size.keys))
		switch c.do {
		case endLease, expireKey:
			err = h.moveTime(ctx, by, c)
		case look:
			err = h.lookAt(ctx, by, c)
		default:
			err = h.transact(ctx, by, c, random, level)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// draw picks a call. Time passes for a key by moving its row's timestamps.
func (h *history) draw(random *rand.Rand, key int) call {
	verbs := []verb{
		claim, claim, claim, claim, claim, complete, complete, release, extend, abandon,
		purge, endLease, endLease, expireKey, look,
	}
	c := call{do: verbs[random.IntN(len(verbs))], key: key}
	switch c.do {
	case claim:
		// Mostly the same request: two different ones only ever get a mismatch.
		c.request = 1 + max(0, random.IntN(8)-7+requests-1)
	case complete, release, extend, abandon:
		c.fence, c.response = h.drawFence(random, key), h.newResponse()
	default: // no argument but the key
	}
	return c
}

// drawFence prefers the newest number.
func (h *history) drawFence(random *rand.Rand, key int) int64 {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	known := h.fences[key]
	if len(known) == 0 {
		return 1
	}
	if random.IntN(3) > 0 {
		return known[len(known)-1]
	}
	return known[random.IntN(len(known))]
}

func (h *history) newResponse() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.responses++
	return h.responses
}

// transact makes one call by itself or in an explicit transaction, which now
// and then is rolled back, and where a claim may be completed.
func (h *history) transact(ctx context.Context, by client, c call, random *rand.Rand, level pgx.TxIsoLevel) error {
	started := h.now()
	tx, err := by.app.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	done := transaction{rolledBack: random.IntN(6) == 0}
	var answers []answer
	for more := true; more; {
		a, err := perform(ctx, tx, c)
		if err != nil {
			return h.refused(ctx, tx, level, err)
		}
		done.calls, answers = append(done.calls, c), append(answers, a)
		more = c.do == claim && a.outcome == guard.Claimed && random.IntN(3) == 0
		if more {
			c = call{do: complete, key: c.key, fence: a.fence, response: h.newResponse()}
		}
	}
	if done.rolledBack {
		err = tx.Rollback(ctx)
	} else {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return h.refused(ctx, tx, level, err)
	}
	h.add(by, started, done, answers)
	return nil
}

// refused lets pass what a database may do above READ COMMITTED: the
// transaction has then happened nowhere.
func (h *history) refused(ctx context.Context, tx pgx.Tx, level pgx.TxIsoLevel, err error) error {
	if rollback := tx.Rollback(ctx); rollback != nil && !errors.Is(rollback, pgx.ErrTxClosed) {
		return fmt.Errorf("roll back: %w", rollback)
	}
	if level != pgx.ReadCommitted && guard.SQLState(err) == serializationFailure {
		return nil
	}
	return err
}

func (h *history) moveTime(ctx context.Context, by client, c call) error {
	started := h.now()
	statement := endLeaseSQL
	if c.do == expireKey {
		statement = expireKeySQL
	}
	if _, err := by.owner.Exec(ctx, statement, scope, keyName(c.key)); err != nil {
		return fmt.Errorf("%s: %w", c.do, err)
	}
	h.add(by, started, transaction{calls: part{c}}, []answer{{}})
	return nil
}

func (h *history) lookAt(ctx context.Context, by client, c call) error {
	started := h.now()
	seen, err := readRow(ctx, by.owner, c.key, nil)
	if err != nil {
		return err
	}
	h.add(by, started, transaction{calls: part{c}}, []answer{{row: seen}})
	return nil
}

func (h *history) now() int64 { return int64(time.Since(h.start)) }

// add records a transaction. Which key a purge deletes it does not say, so
// that it goes into the history of every key as one that may have.
func (h *history) add(by client, started int64, done transaction, answers []answer) {
	returned := h.now()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for i, a := range answers {
		if a.outcome == guard.Claimed && !done.rolledBack {
			key := done.calls[i].key
			h.fences[key] = append(h.fences[key], a.fence)
		}
		if done.calls[i].do == purge {
			answers[i].deleted = -1
		}
	}
	h.operations = append(h.operations, porcupine.Operation{
		ClientId: by.number, Input: done, Call: started, Output: answers, Return: returned,
	})
}

func (h *history) check(key int) error {
	var of []porcupine.Operation
	for _, operation := range h.operations {
		first := operation.Input.(transaction).calls[0]
		if first.key == key || first.do == purge {
			of = append(of, operation)
		}
	}
	switch porcupine.CheckOperationsTimeout(model(state{}), of, checkTimeout) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("no answer within %s about %d transactions", checkTimeout, len(of))
	default:
		return fmt.Errorf("no serial order explains these %d transactions: %v", len(of), of)
	}
}
