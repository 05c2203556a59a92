package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/bench/internal/guardops"
	"github.com/payonce/payonce/bench/internal/lab"
)

const dbosName = "DBOS: workflow with one step"

// charge is a workflow whose one step does the work, which takes no time.
func charge(ctx dbos.Context, _ string) (string, error) {
	return dbos.RunAsStep(ctx, func(context.Context) (string, error) { return string(guardops.Response().Body), nil })
}

// openDBOS uses the workflow's id as the key.
func openDBOS(ctx context.Context, l *lab.Lab) (*peer, error) {
	db, err := l.Database(ctx, "bench_dbos")
	if err != nil {
		return nil, err
	}
	pool, err := ownerPool(ctx, db)
	if err != nil {
		return nil, err
	}
	runtime, err := dbos.NewContext(ctx, dbos.Config{
		AppName: "payonce-bench", SystemDBPool: pool, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("make a DBOS context: %w", err)
	}
	dbos.RegisterWorkflow(runtime, charge)
	if err := dbos.Launch(runtime); err != nil {
		pool.Close()
		return nil, fmt.Errorf("launch DBOS: %w", err)
	}
	closeAll := func() {
		_ = dbos.Shutdown(runtime, 10*time.Second)
		pool.Close()
	}
	done := uuid.NewString()
	if err := runWorkflow(runtime, done); err != nil {
		closeAll()
		return nil, err
	}
	return &peer{
		name:   dbosName,
		fresh:  func(context.Context) error { return runWorkflow(runtime, uuid.NewString()) },
		replay: func(context.Context) error { return runWorkflow(runtime, done) },
		close:  closeAll,
	}, nil
}

func runWorkflow(runtime dbos.Context, key string) error {
	handle, err := dbos.RunWorkflow(runtime, charge, "order-1", dbos.WithWorkflowID(key))
	if err != nil {
		return fmt.Errorf("run the workflow: %w", err)
	}
	body, err := handle.GetResult()
	if err != nil {
		return fmt.Errorf("await the workflow: %w", err)
	}
	if body != string(guardops.Response().Body) {
		return errors.New("the workflow gave other bytes than its step")
	}
	return nil
}

// ownerPool is a pool for a library that brings its own schema.
func ownerPool(ctx context.Context, db *lab.DB) (*pgxpool.Pool, error) {
	at, err := url.Parse(db.URL)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	query := at.Query()
	query.Set("pool_max_conns", strconv.Itoa(poolSize))
	at.RawQuery = query.Encode()
	pool, err := pgxpool.New(ctx, at.String())
	if err != nil {
		return nil, fmt.Errorf("open a pool: %w", err)
	}
	return pool, nil
}
