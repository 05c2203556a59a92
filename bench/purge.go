package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/payonce/payonce/bench/internal/guardops"
	"github.com/payonce/payonce/bench/internal/lab"
	"github.com/payonce/payonce/bench/internal/load"
	"github.com/payonce/payonce/bench/internal/report"
	"github.com/payonce/payonce/bench/internal/suite"
)

const (
	purgeClients = 8
	// purgeBatches is how many batches one turn of the purge deletes.
	purgeBatches = 200
	purgeTurns   = 10
	// The week: traffic of a day, then its purge.
	days = 7
)

// The operations of the purge experiment: the same claims, alone and beside a
// running purge.
const (
	opAlone   = "claim, no purge"
	opBeside  = "claim, purge running"
	batchRows = 500 // the default of guard.purge
)

// measurePurge deletes a million expired keys while claims go on, in turns: a
// stretch of claims alone, a stretch of claims beside the purge.
func measurePurge(ctx context.Context, s *suite.Suite) error {
	db, err := s.Lab.Database(ctx, "bench_purge")
	if err != nil {
		return err
	}
	expired := s.Rows(purgeTurns * purgeBatches * batchRows)
	s.Step("filling a table with %d expired keys", expired)
	if err := fillKeys(ctx, db, expired, -time.Hour); err != nil {
		return err
	}
	if err := purgeUnderTraffic(ctx, s, db, expired); err != nil {
		return err
	}
	return simulateWeek(ctx, s)
}

func purgeUnderTraffic(ctx context.Context, s *suite.Suite, db *lab.DB, expired int64) error {
	pool, err := db.Pool(ctx, purgeClients)
	if err != nil {
		return err
	}
	defer pool.Close()
	claim := func(name string) *load.Op {
		return load.NewOp(name, func(ctx context.Context, _ int, _ int64) error {
			_, err := guardops.Claim(ctx, pool, guardops.NewRequest())
			return err
		})
	}
	alone, beside := claim(opAlone), claim(opBeside)
	plan := load.Plan{Clients: purgeClients, For: max(s.Seconds(0.5), 100*time.Millisecond)}
	calibration, err := load.Run(ctx, plan, alone)
	if err != nil {
		return err
	}
	plan.Rate, plan.For = calibration.Rate()*utilisation, s.Seconds(1)
	s.Step("%d clients, %.0f claims/s offered, with and without a purge", plan.Clients, plan.Rate)
	turns := purging{db: db, batches: max(1, int(expired/batchRows/purgeTurns))}
	before, err := countExpired(ctx, db)
	if err != nil {
		return err
	}
	var quiet, busy []load.Sample
	for range purgeTurns {
		sample, err := load.Run(ctx, plan, alone)
		if err != nil {
			return err
		}
		quiet = append(quiet, sample)
		if sample, err = turns.beside(ctx, plan, beside); err != nil {
			return err
		}
		busy = append(busy, sample)
	}
	condition := report.Condition{Experiment: "purge", Clients: plan.Clients, Offered: plan.Rate}
	if err := errors.Join(s.Keep(condition, opAlone, quiet), s.Keep(condition, opBeside, busy), s.ShowLast(2)); err != nil {
		return err
	}
	after, err := countExpired(ctx, db)
	if err != nil {
		return err
	}
	deleted := before - after
	s.Figure("purge", "rows deleted", float64(deleted), "rows", "while claims went on")
	s.Figure("purge", "rate", float64(deleted)/turns.took.Seconds(), "rows/s", "while claims went on")
	if deleted < expired*9/10 {
		return fmt.Errorf("the purge deleted %d of %d expired keys", deleted, expired)
	}
	with, without := &s.Result.Series[len(s.Result.Series)-1], &s.Result.Series[len(s.Result.Series)-2]
	s.AtMost("claim p99 while a purge runs / without", 1.2, report.Ratio(with, without, report.P99), "×")
	return nil
}

// purging runs the purge turn by turn and keeps the time.
type purging struct {
	db      *lab.DB
	batches int
	took    time.Duration
}

// beside measures claims while one turn of the purge runs: as long as it runs.
func (p *purging) beside(ctx context.Context, plan load.Plan, op *load.Op) (load.Sample, error) {
	done := make(chan error, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		done <- p.turn(ctx)
	}()
	merged := load.Sample{Histogram: load.NewHistogram()}
	slice := plan
	slice.For = plan.For / 5
	for running := true; running; {
		sample, err := load.Run(ctx, slice, op)
		if err != nil {
			return load.Sample{}, errors.Join(err, <-done)
		}
		merged.Histogram.Merge(sample.Histogram)
		merged.Elapsed += sample.Elapsed
		select {
		case <-finished:
			running = false
		default:
		}
	}
	return merged, <-done
}

func (p *purging) turn(ctx context.Context) error {
	return p.db.With(ctx, func(conn *pgx.Conn) error {
		start := time.Now()
		if _, err := conn.Exec(ctx, "CALL guard.purge(p_max_batches => $1)", p.batches); err != nil {
			return fmt.Errorf("purge: %w", err)
		}
		p.took += time.Since(start)
		return nil
	})
}

func countExpired(ctx context.Context, db *lab.DB) (int64, error) {
	var n int64
	return n, db.With(ctx, func(conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, "SELECT count(*) FROM guard.idempotency_keys WHERE expires_at <= now()").Scan(&n)
		if err != nil {
			return fmt.Errorf("count the expired keys: %w", err)
		}
		return nil
	})
}

// simulateWeek lets a day's keys come, expire and be purged, seven times, and
// watches the table's size: steady traffic must not make it grow.
func simulateWeek(ctx context.Context, s *suite.Suite) error {
	db, err := s.Lab.Database(ctx, "bench_week")
	if err != nil {
		return err
	}
	perDay := s.Rows(20_000)
	s.Step("a week of %d keys a day, purged each night", perDay)
	var first, last size
	for day := range days {
		if err := liveOneDay(ctx, db, perDay); err != nil {
			return err
		}
		if last, err = sizeOf(ctx, db); err != nil {
			return err
		}
		if int64(last.rows) != perDay {
			return fmt.Errorf("after day %d the table has %.0f keys, not the day's %d", day+1, last.rows, perDay)
		}
		if day == 0 {
			first = last
		}
		if err := night(ctx, db); err != nil {
			return err
		}
	}
	s.Figure("purge", "table after day 1", first.table/first.rows, "bytes/key", "claimed and completed one by one")
	s.Figure("purge", "index after day 1", first.index/first.rows, "bytes/key", "claimed and completed one by one")
	s.Figure("purge", "size after day 7 / day 1", (last.table+last.index)/(first.table+first.index), "×", "with the day's keys in it")
	s.AtMost("table and index after a week / after a day", 1.5, (last.table+last.index)/(first.table+first.index), "×")
	return nil
}

// liveOneDay claims and completes keys one by one, in short transactions whose
// durability is not waited for: the size is measured here, not the speed.
func liveOneDay(ctx context.Context, db *lab.DB, keys int64) error {
	const sql = `DO $do$
DECLARE
    v_key   text;
    v_claim guard.result;
BEGIN
    FOR v_i IN 1..%d LOOP
        v_key := gen_random_uuid()::text;
        v_claim := guard.claim('bench', v_key, 'POST /v1/charges', sha256(v_key::bytea), '1 minute', '1 day');
        COMMIT;
        PERFORM guard.complete('bench', v_key, v_claim.fence, 201, '{"Content-Type": "application/json"}',
                               convert_to(repeat('payonce ', 28), 'UTF8'));
        COMMIT;
    END LOOP;
END;
$do$`
	return db.With(ctx, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SET synchronous_commit = off"); err != nil {
			return fmt.Errorf("prepare a day: %w", err)
		}
		if _, err := conn.Exec(ctx, fmt.Sprintf(sql, keys)); err != nil {
			return fmt.Errorf("live a day: %w", err)
		}
		return nil
	})
}

// night ends the lives of the day's keys, purges them and vacuums, as
// autovacuum would have by the next day. Moving the end of their lives into the
// past makes a new version of each row, which no real night does: it takes more
// room than reality, never less.
func night(ctx context.Context, db *lab.DB) error {
	return db.With(ctx, func(conn *pgx.Conn) error {
		for _, sql := range []string{
			"UPDATE guard.idempotency_keys SET expires_at = now() - interval '1 second'",
			"CALL guard.purge()",
			"VACUUM guard.idempotency_keys",
		} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("spend the night: %w", err)
			}
		}
		return nil
	})
}
