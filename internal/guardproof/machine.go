package guardproof

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// machine holds a database and the model beside each other: after every call
// the answer and the row must be what the model says.
type machine struct {
	ctx        context.Context
	app, owner *pgx.Conn
	keys       []state
	fences     [][]int64
	calls      int
}

const machineKeys = 2

// checkMachine runs random sequences of calls one after the other and fails t,
// with the shortest sequence found, at the first difference.
func checkMachine(ctx context.Context, t rapid.TB, target Target) (calls int) {
	t.Helper()
	app, owner := connectBoth(ctx, t, target)
	defer func() {
		_ = app.Close(context.WithoutCancel(ctx))
		_ = owner.Close(context.WithoutCancel(ctx))
	}()
	rapid.Check(t, func(rt *rapid.T) {
		if _, err := owner.Exec(ctx, `DELETE FROM guard.idempotency_keys`); err != nil {
			rt.Fatalf("empty the table: %v", err)
		}
		m := &machine{
			ctx: ctx, app: app, owner: owner,
			keys: make([]state, machineKeys), fences: make([][]int64, machineKeys),
		}
		rt.Repeat(map[string]func(*rapid.T){
			"claim": m.claim, "complete": m.holder(complete), "release": m.holder(release),
			"extend": m.holder(extend), "abandon": m.holder(abandon), "purge": m.purge,
			"end lease": m.moveTime(endLease, endLeaseSQL), "expire key": m.moveTime(expireKey, expireKeySQL),
			"": m.look,
		})
		calls += m.calls
	})
	return calls
}

func connectBoth(ctx context.Context, t rapid.TB, target Target) (app, owner *pgx.Conn) {
	t.Helper()
	app, err := pgx.ConnectConfig(ctx, target.App)
	if err != nil {
		t.Fatalf("connect a session: %v", err)
	}
	owner, err = pgx.ConnectConfig(ctx, target.Owner)
	if err != nil {
		t.Fatalf("connect as owner: %v", err)
	}
	return app, owner
}

func (m *machine) claim(t *rapid.T) {
	c := call{do: claim, key: m.drawKey(t), request: rapid.IntRange(1, requests).Draw(t, "request")}
	a := m.compare(t, c)
	if a.fence == 0 {
		return
	}
	if slices.Contains(m.fences[c.key], a.fence) {
		t.Fatal("a fence was given twice")
	}
	m.fences[c.key] = append(m.fences[c.key], a.fence)
}

func (m *machine) holder(do verb) func(*rapid.T) {
	return func(t *rapid.T) {
		key := m.drawKey(t)
		fences := append([]int64{1}, m.fences[key]...)
		slices.Reverse(fences)
		c := call{do: do, key: key, fence: rapid.SampledFrom(fences).Draw(t, "fence")}
		if do == complete {
			c.response = rapid.IntRange(1, 1000).Draw(t, "response")
		}
		m.compare(t, c)
	}
}

// compare makes a call in the database and in the model. The errors name no
// fence: rapid minimizes only what fails twice with the same words.
func (m *machine) compare(t *rapid.T, c call) answer {
	m.calls++
	a, err := perform(m.ctx, m.app, c)
	if err != nil {
		t.Fatalf("%s: %v", c.do, err)
	}
	next := step(m.keys[c.key], c, a)
	if len(next) != 1 {
		t.Logf("key %d: %s answered %s in %+v", c.key, c, a, m.keys[c.key])
		t.Fatalf("%s answered %s%t against the model", c.do, a.outcome, a.yes)
	}
	m.keys[c.key] = next[0]
	return a
}

// purge: with nobody else at work, each key past its life goes.
func (m *machine) purge(t *rapid.T) {
	m.calls++
	a, err := perform(m.ctx, m.app, call{do: purge})
	if err != nil {
		t.Fatalf("purge: %v", err)
	}
	due := 0
	for key, s := range m.keys {
		if s.exists && s.expired() {
			due++
			m.keys[key] = state{}
		}
	}
	if a.deleted != due {
		t.Fatalf("purge deleted %d keys, %d were due", a.deleted, due)
	}
}

func (m *machine) moveTime(do verb, statement string) func(*rapid.T) {
	return func(t *rapid.T) {
		key := m.drawKey(t)
		if _, err := m.owner.Exec(m.ctx, statement, scope, keyName(key)); err != nil {
			t.Fatalf("%s: %v", do, err)
		}
		if m.keys[key].exists {
			m.keys[key] = step(m.keys[key], call{do: do}, answer{})[0]
		}
	}
}

func (m *machine) look(t *rapid.T) {
	for key := range m.keys {
		seen, err := readRow(m.ctx, m.owner, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := m.keys[key].row(); seen != want {
			t.Logf("key %d is %+v, and should be %+v", key, seen, want)
			t.Fatal("a row differs from the model")
		}
	}
}

func (m *machine) drawKey(t *rapid.T) int {
	return rapid.IntRange(0, machineKeys-1).Draw(t, "key")
}
