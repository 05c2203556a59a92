package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/payonce/payonce/bench/internal/lab"
)

// chargeJob is a job that stands once in the queue for one key.
type chargeJob struct {
	Key string `json:"key"`
}

// Kind names the job.
func (chargeJob) Kind() string { return "charge" }

// openRiver puts unique jobs into the queue. Working them, and an answer to
// whoever waits for it, come on top of what is measured.
func openRiver(ctx context.Context, l *lab.Lab) (*peer, error) {
	db, err := l.Database(ctx, "bench_river")
	if err != nil {
		return nil, err
	}
	pool, err := ownerPool(ctx, db)
	if err != nil {
		return nil, err
	}
	client, err := riverClient(ctx, pool)
	if err != nil {
		pool.Close()
		return nil, err
	}
	done := uuid.NewString()
	if err := insertJob(ctx, client, done, false); err != nil {
		pool.Close()
		return nil, err
	}
	return &peer{
		name:   "River: unique insert, no work, no answer",
		fresh:  func(ctx context.Context) error { return insertJob(ctx, client, uuid.NewString(), false) },
		replay: func(ctx context.Context) error { return insertJob(ctx, client, done, true) },
		close:  pool.Close,
	}, nil
}

func riverClient(ctx context.Context, pool *pgxpool.Pool) (*river.Client[pgx.Tx], error) {
	log := slog.New(slog.DiscardHandler)
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("prepare River's migrations: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, fmt.Errorf("apply River's migrations: %w", err)
	}
	client, err := river.NewClient(driver, &river.Config{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("make a client of River: %w", err)
	}
	return client, nil
}

func insertJob(ctx context.Context, client *river.Client[pgx.Tx], key string, known bool) error {
	result, err := client.Insert(ctx, chargeJob{Key: key}, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}})
	if err != nil {
		return fmt.Errorf("insert a job: %w", err)
	}
	if result.UniqueSkippedAsDuplicate != known {
		return errors.New("river took a known key for a new one, or the other way round")
	}
	return nil
}
