package guardproof

import (
	"context"
	"testing"
	"time"
	"github.com/jackc/pgx/v5"
)

func TestScratch(t *testing.T) {
	ctx := context.Background()
	owner, _ := pgx.ParseConfig("postgres://postgres@127.0.0.1:54999/s1?host=/tmp/gp/pg")
	app, _ := pgx.ParseConfig("postgres://postgres@127.0.0.1:54999/s1?host=/tmp/gp/pg&role=payonce_app")
	target, drop, err := Target{App: app, Owner: owner}.cloneStepped(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer drop(ctx)
	st, err := newStepper(ctx, target, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer st.close(ctx)
	run := func(name string, plans []plan) {
		w := &worker{stepper: st}
		at := time.Now()
		bad := 0
		for _, p := range plans {
			if err := w.explore(ctx, p); err != nil {
				bad++
				if bad < 4 {
					t.Error(err)
				}
				st.close(ctx)
				st, _ = newStepper(ctx, target, 3)
				w.stepper = st
			}
		}
		t.Log(name, len(plans), w.explored, w.diverged, bad, time.Since(at))
	}
	run("pairs RC", pairs(pgx.ReadCommitted))
	run("pairs RR", pairs(pgx.RepeatableRead))
	run("pairs SER", pairs(pgx.Serializable))
	run("triples", triples())
}
