package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the tables and functions to compare with
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/bench/internal/guardops"
	"github.com/payonce/payonce/bench/internal/lab"
	"github.com/payonce/payonce/bench/internal/load"
	"github.com/payonce/payonce/bench/internal/report"
	"github.com/payonce/payonce/bench/internal/suite"
	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpapi"
	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/unguarded"
)

//go:embed floor.sql
var floorSchema string

// The operations of the floor experiment, each beside what it is held against.
const (
	opInsert       = "bare INSERT"
	opClaim        = "claim"
	opInsertUpdate = "bare INSERT + UPDATE"
	opPair         = "claim + complete"
	opSelect       = "bare SELECT"
	opSQLReplay    = "replay"
	opOrderWrites  = "unguarded order writes"
	opChargeRows   = "a charge's rows, no key"
	opBeginFinish  = "begin + finish"
)

const (
	floorInsertSQL = `INSERT INTO floor.keys (scope, key, request_path, request_hash, fence, locked_at, lease_until, created_at, expires_at)
VALUES ($1::text, $2::text, $3::text, $4::bytea, $5::bigint, $6::timestamptz, $7::timestamptz, $6::timestamptz, $8::timestamptz)`
	floorUpdateSQL = `UPDATE floor.keys SET response_status = $3::int, response_headers = $4::jsonb, response_body = $5::bytea,
       completed_at = $6::timestamptz, expires_at = $7::timestamptz
 WHERE scope = $1::text AND key = $2::text`
	floorSelectSQL = `SELECT response_status, response_headers, response_body FROM floor.keys WHERE scope = $1::text AND key = $2::text`
	floorBeginSQL  = `SELECT floor.begin_rows(p_merchant => $1::text, p_charge_id => $2::text, p_order_id => $3::text)`
	floorFinishSQL = `SELECT floor.finish_rows(p_charge_id => $1::text, p_order_id => $2::text)`
)

// floor is the database of the experiment with its pool.
type floor struct {
	db      *lab.DB
	pool    *pgxpool.Pool
	service *payments.Service
}

// measureFloor holds the guard's calls against the least that they could cost.
func measureFloor(ctx context.Context, s *suite.Suite) error {
	f, err := newFloor(ctx, s)
	if err != nil {
		return err
	}
	defer f.pool.Close()
	ops, err := f.operations(ctx)
	if err != nil {
		return err
	}
	clients := []int{1, 8}
	if s.Quick {
		clients = clients[:1]
	}
	for _, n := range clients {
		s.Step("%d clients, as fast as they go", n)
		condition := report.Condition{Experiment: "floor", Clients: n}
		if err := s.Compare(ctx, condition, s.Seconds(0.4), 7, ops...); err != nil {
			return err
		}
		if err := floorTargets(s, condition); err != nil {
			return err
		}
	}
	return f.footprints(ctx, s, ops)
}

func newFloor(ctx context.Context, s *suite.Suite) (*floor, error) {
	db, err := s.Lab.Database(ctx, "bench_floor")
	if err != nil {
		return nil, err
	}
	if err := db.Exec(ctx, floorSchema); err != nil {
		return nil, err
	}
	if err := db.Grant(ctx, "floor"); err != nil {
		return nil, err
	}
	pool, err := db.Pool(ctx, 8, floorInsertSQL, floorUpdateSQL, floorSelectSQL, floorBeginSQL, floorFinishSQL)
	if err != nil {
		return nil, err
	}
	service, err := payments.New(pool, []psp.Provider{instant{}}, payments.DefaultLimits(), slog.New(slog.DiscardHandler))
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &floor{db: db, pool: pool, service: service}, nil
}

func (f *floor) operations(ctx context.Context) ([]*load.Op, error) {
	known := guardops.NewRequest()
	if err := guardops.Pair(ctx, f.pool, known); err != nil {
		return nil, err
	}
	if err := f.insertUpdate(ctx, known); err != nil {
		return nil, err
	}
	simple := func(call func(context.Context) error) load.Call {
		return func(ctx context.Context, _ int, _ int64) error { return call(ctx) }
	}
	return []*load.Op{
		load.NewOp(opInsert, simple(func(ctx context.Context) error { return f.insert(ctx, guardops.NewRequest()) })),
		load.NewOp(opClaim, simple(func(ctx context.Context) error {
			_, err := guardops.Claim(ctx, f.pool, guardops.NewRequest())
			return err
		})),
		load.NewOp(opInsertUpdate, simple(func(ctx context.Context) error {
			return f.insertUpdate(ctx, guardops.NewRequest())
		})),
		load.NewOp(opPair, simple(func(ctx context.Context) error {
			return guardops.Pair(ctx, f.pool, guardops.NewRequest())
		})),
		load.NewOp(opSelect, simple(func(ctx context.Context) error { return f.read(ctx, known) })),
		load.NewOp(opSQLReplay, simple(func(ctx context.Context) error { return guardops.Replay(ctx, f.pool, known) })),
		load.NewOp(opOrderWrites, simple(f.orderWrites)),
		load.NewOp(opChargeRows, simple(f.chargeRows)),
		load.NewOp(opBeginFinish, simple(f.beginFinish)),
	}, nil
}

func (f *floor) insert(ctx context.Context, r guard.Request) error {
	now := time.Now()
	_, err := f.pool.Exec(ctx, floorInsertSQL, r.Scope, r.Key, r.Path, r.Hash, now.UnixMicro(), now,
		now.Add(guardops.Lease), now.Add(guardops.TTL))
	return err
}

func (f *floor) insertUpdate(ctx context.Context, r guard.Request) error {
	if err := f.insert(ctx, r); err != nil {
		return err
	}
	response := guardops.Response()
	headers, err := guard.EncodeHeaders(response.Headers)
	if err != nil {
		return err
	}
	now := time.Now()
	_, err = f.pool.Exec(ctx, floorUpdateSQL, r.Scope, r.Key, response.Status, headers, response.Body, now, now.Add(guardops.TTL))
	return err
}

func (f *floor) read(ctx context.Context, r guard.Request) error {
	var got guard.Response
	err := f.pool.QueryRow(ctx, floorSelectSQL, r.Scope, r.Key).Scan(&got.Status, &got.Headers, &got.Body)
	if err != nil {
		return err
	}
	if !bytes.Equal(got.Body, guardops.Response().Body) {
		return errors.New("the bare table gave other bytes than were stored")
	}
	return nil
}

// orderWrites are the two statements of the unguarded handler.
func (f *floor) orderWrites(ctx context.Context) error {
	statements, orderID := unguarded.Statements(), uuid.NewString()
	if _, err := f.pool.Exec(ctx, statements[0], orderID, orderID, "instant", 1000, "CNY"); err != nil {
		return err
	}
	_, err := f.pool.Exec(ctx, statements[1], orderID, "succeeded", "trade-"+orderID)
	return err
}

// chargeRows writes what begin and finish write, in as many commits, without a key.
func (f *floor) chargeRows(ctx context.Context) error {
	orderID := uuid.NewString()
	if _, err := f.pool.Exec(ctx, floorBeginSQL, merchant, "ch_"+orderID, orderID); err != nil {
		return err
	}
	_, err := f.pool.Exec(ctx, floorFinishSQL, "ch_"+orderID, orderID)
	return err
}

func (f *floor) beginFinish(ctx context.Context) error {
	orderID := uuid.NewString()
	hash := sha256.Sum256([]byte(orderID))
	result, err := f.service.Begin(ctx, payments.ChargeRequest{
		Guard:    guard.Request{Scope: merchant, Key: orderID, Path: "POST /v1/charges", Hash: hash[:]},
		Provider: "instant", OrderID: orderID, Money: money.Money{Amount: 1000, Currency: "CNY"},
	}, httpapi.StoredCharge)
	if err != nil {
		return err
	}
	if result.Outcome != guard.Completed {
		return fmt.Errorf("a charge with a new key ended as %s", result.Outcome)
	}
	return nil
}

// floorPair is a call of the guard and the least that it could cost.
type floorPair struct {
	of, to string
	bound  float64
}

func floorPairs() []floorPair {
	return []floorPair{
		{opClaim, opInsert, 1.15},
		{opPair, opInsertUpdate, 1.15},
		{opSQLReplay, opSelect, 1.15},
		{opBeginFinish, opOrderWrites, 1.2},
		{opBeginFinish, opChargeRows, 1.2},
	}
}

// floorRatio compares what a call takes: one client by the median latency. Of
// several clients on few cores some are served in bursts and the others wait,
// which makes a median a matter of luck: there the time per call counts, which
// is the inverse of the rate.
func floorRatio(of, to *report.Series) (ratio float64, measure string) {
	if of.Clients == 1 {
		return report.Ratio(of, to, report.P50), "p50"
	}
	return report.Ratio(to, of, report.PerSecond), "time per call"
}

func floorTargets(s *suite.Suite, condition report.Condition) error {
	for _, pair := range floorPairs() {
		of, err := s.Result.Find(condition, pair.of)
		if err != nil {
			return err
		}
		to, err := s.Result.Find(condition, pair.to)
		if err != nil {
			return err
		}
		ratio, measure := floorRatio(of, to)
		name := fmt.Sprintf("%s / %s, %s, clients: %d", pair.of, pair.to, measure, condition.Clients)
		s.AtMost(name, pair.bound, ratio, "×")
	}
	return nil
}

// footprints counts what one call writes and reads.
func (f *floor) footprints(ctx context.Context, s *suite.Suite, ops []*load.Op) error {
	calls := 300
	if s.Quick {
		calls = 20
	}
	for _, op := range ops {
		err := f.db.With(ctx, func(conn *pgx.Conn) error {
			// Untouched pages after a checkpoint are logged in full: not what a call costs.
			for i := range calls {
				if i == calls/2 {
					if _, err := conn.Exec(ctx, "SELECT pg_stat_statements_reset()"); err != nil {
						return fmt.Errorf("reset the statistics: %w", err)
					}
				}
				if err := op.Call(ctx, 0, int64(i)); err != nil {
					return err
				}
			}
			var wal, buffers float64
			err := conn.QueryRow(ctx, `SELECT sum(wal_bytes), sum(shared_blks_hit + shared_blks_read)
  FROM pg_stat_statements AS s JOIN pg_catalog.pg_roles AS r ON r.oid = s.userid WHERE r.rolname <> current_user`).Scan(&wal, &buffers)
			if err != nil {
				return fmt.Errorf("read the statistics: %w", err)
			}
			s.Figure("floor", op.Name+": WAL", wal/float64(calls/2), "bytes/call", "pg_stat_statements")
			s.Figure("floor", op.Name+": buffers", buffers/float64(calls/2), "pages/call", "pg_stat_statements")
			return nil
		})
		if err != nil {
			return fmt.Errorf("footprint of %s: %w", op.Name, err)
		}
	}
	return nil
}
