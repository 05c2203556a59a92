package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/bench/internal/guardops"
	"github.com/payonce/payonce/bench/internal/lab"
	"github.com/payonce/payonce/bench/internal/load"
	"github.com/payonce/payonce/bench/internal/report"
	"github.com/payonce/payonce/bench/internal/suite"
	"github.com/payonce/payonce/internal/guard"
)

const (
	growthClients = 8
	hotClients    = 256
	// sampled is how many of a table's keys are replayed.
	sampled = 5000

	opHotClaim  = "hot key: claim or conflict"
	opHotReplay = "hot key: replay"
)

// growthSizes are how many keys stand in the compared tables.
func growthSizes(s *suite.Suite, most int64) []int64 {
	var sizes []int64
	for _, rows := range []int64{1e4, 1e6, 1e7, 1e8} {
		if rows <= most {
			sizes = append(sizes, s.Rows(rows))
		}
	}
	return sizes
}

// grown is a database with many keys.
type grown struct {
	keys   int64
	db     *lab.DB
	pool   *pgxpool.Pool
	sample []guard.Request
}

// measureGrowth compares tables of different sizes, all there at once.
func measureGrowth(ctx context.Context, s *suite.Suite) error {
	var tables []*grown
	defer func() {
		for _, t := range tables {
			t.pool.Close()
		}
	}()
	for _, keys := range growthSizes(s, s.MostKeys) {
		s.Step("filling a table with %d keys", keys)
		t, err := grow(ctx, s.Lab, keys)
		if err != nil {
			return err
		}
		tables = append(tables, t)
	}
	if err := compareGrown(ctx, s, tables); err != nil {
		return err
	}
	largest := tables[len(tables)-1]
	found, err := sizeOf(ctx, largest.db)
	if err != nil {
		return err
	}
	s.Figure("growth", "table", found.table/found.rows, "bytes/key", fmt.Sprintf("of %.0f keys", found.rows))
	s.Figure("growth", "index", found.index/found.rows, "bytes/key", fmt.Sprintf("of %.0f keys, freshly built", found.rows))
	return measureHotKey(ctx, s, largest.db)
}

func grow(ctx context.Context, l *lab.Lab, keys int64) (*grown, error) {
	db, err := l.Database(ctx, fmt.Sprintf("bench_growth_%d", keys))
	if err != nil {
		return nil, err
	}
	if err := fillKeys(ctx, db, keys, guardops.TTL); err != nil {
		return nil, err
	}
	pool, err := db.Pool(ctx, growthClients)
	if err != nil {
		return nil, err
	}
	t := &grown{keys: keys, db: db, pool: pool}
	if err := t.choose(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return t, nil
}

// choose takes keys from all over the table, to be replayed.
func (t *grown) choose(ctx context.Context) error {
	hash := sha256.Sum256([]byte("bench"))
	part := min(100, 100*float64(sampled)/float64(t.keys))
	return t.db.With(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT key FROM guard.idempotency_keys TABLESAMPLE BERNOULLI ($1)", part)
		if err != nil {
			return fmt.Errorf("choose keys to replay: %w", err)
		}
		keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("choose keys to replay: %w", err)
		}
		for _, key := range keys {
			t.sample = append(t.sample, guard.Request{Scope: "bench", Key: key, Path: "POST /v1/charges", Hash: hash[:]})
		}
		return nil
	})
}

func (t *grown) operations() (claim, replay *load.Op) {
	claim = load.NewOp(opClaim, func(ctx context.Context, _ int, _ int64) error {
		_, err := guardops.Claim(ctx, t.pool, guardops.NewRequest())
		return err
	})
	replay = load.NewOp(opSQLReplay, func(ctx context.Context, _ int, number int64) error {
		return guardops.Replay(ctx, t.pool, t.sample[number%int64(len(t.sample))])
	})
	return claim, replay
}

func compareGrown(ctx context.Context, s *suite.Suite, tables []*grown) error {
	plan := load.Plan{Clients: growthClients, For: max(s.Seconds(0.5), 100*time.Millisecond)}
	var ops []*load.Op
	for _, t := range tables {
		claim, replay := t.operations()
		ops = append(ops, claim, replay)
	}
	calibration, err := load.Run(ctx, plan, ops[0])
	if err != nil {
		return err
	}
	plan.Rate, plan.For = calibration.Rate()*utilisation, s.Seconds(0.7)
	s.Step("%d clients, %.0f calls/s offered to each table in turn", plan.Clients, plan.Rate)
	samples, err := load.Interleave(ctx, plan, 7, ops...)
	if err != nil {
		return err
	}
	for i, op := range ops {
		condition := report.Condition{
			Experiment: "growth", Clients: plan.Clients, Keys: tables[i/2].keys, Offered: plan.Rate,
		}
		if err := s.Keep(condition, op.Name, samples[i]); err != nil {
			return err
		}
	}
	if err := s.ShowLast(len(ops)); err != nil {
		return err
	}
	return growthTargets(s, tables)
}

func growthTargets(s *suite.Suite, tables []*grown) error {
	condition := report.Condition{Experiment: "growth", Clients: growthClients, Keys: tables[0].keys}
	for _, operation := range []string{opClaim, opSQLReplay} {
		condition.Keys = tables[0].keys
		small, err := s.Result.Find(condition, operation)
		if err != nil {
			return err
		}
		for _, t := range tables[1:] {
			condition.Keys = t.keys
			large, err := s.Result.Find(condition, operation)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("%s p99, %d keys / %d keys", operation, t.keys, tables[0].keys)
			s.AtMost(name, 1.3, report.Ratio(large, small, report.P99), "×")
		}
	}
	return nil
}

// measureHotKey lets many clients at one key: one gets it, the others are told
// to wait, and once it is completed all get the answer.
func measureHotKey(ctx context.Context, s *suite.Suite, db *lab.DB) error {
	pool, err := db.Pool(ctx, hotClients)
	if err != nil {
		return err
	}
	defer pool.Close()
	request := guardops.NewRequest()
	var claimed atomic.Int64
	var fence atomic.Int64
	storm := load.NewOp(opHotClaim, func(ctx context.Context, _ int, _ int64) error {
		result, err := guard.Claim(ctx, pool, request, guardops.Lease, guardops.TTL)
		switch {
		case err != nil:
			return err
		case result.Outcome == guard.Claimed:
			claimed.Add(1)
			fence.Store(result.Fence)
		case result.Outcome != guard.Conflict:
			return fmt.Errorf("a held key gave %s", result.Outcome)
		}
		return nil
	})
	condition := report.Condition{Experiment: "growth", Clients: hotClients}
	s.Step("%d clients on one key", hotClients)
	if err := s.Compare(ctx, condition, s.Seconds(0.8), 1, storm); err != nil {
		return err
	}
	if claimed.Load() != 1 {
		return fmt.Errorf("a key was claimed %d times at once", claimed.Load())
	}
	holder := guard.Holder{Scope: request.Scope, Key: request.Key, Fence: fence.Load()}
	completed, err := guard.Complete(ctx, pool, holder, guardops.Response())
	if err != nil {
		return err
	}
	if completed.Outcome != guard.Completed {
		return fmt.Errorf("completing the hot key gave %s", completed.Outcome)
	}
	return s.Compare(ctx, condition, s.Seconds(0.8), 1, load.NewOp(opHotReplay,
		func(ctx context.Context, _ int, _ int64) error { return guardops.Replay(ctx, pool, request) }))
}
