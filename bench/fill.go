package main

import (
	"context"
	_ "embed" // the statement that fills the table
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/payonce/payonce/bench/internal/guardops"
	"github.com/payonce/payonce/bench/internal/lab"
	"github.com/payonce/payonce/internal/guard"
)

//go:embed growth.sql
var fillSQL string

// fillKeys puts completed keys into an empty table. The primary key is built
// afterwards, which takes a fraction of the time and gives the same index.
func fillKeys(ctx context.Context, db *lab.DB, rows int64, life time.Duration) error {
	response := guardops.Response()
	headers, err := guard.EncodeHeaders(response.Headers)
	if err != nil {
		return err
	}
	return db.With(ctx, func(conn *pgx.Conn) error {
		const drop = "ALTER TABLE guard.idempotency_keys DROP CONSTRAINT idempotency_keys_pkey"
		if _, err := conn.Exec(ctx, drop); err != nil {
			return fmt.Errorf("drop the primary key: %w", err)
		}
		var inserting errgroup.Group
		inserting.Go(func() error { return insertKeys(ctx, db, rows/2, headers, response.Body, life) })
		inserting.Go(func() error { return insertKeys(ctx, db, rows-rows/2, headers, response.Body, life) })
		if err := inserting.Wait(); err != nil {
			return err
		}
		for _, sql := range []string{
			"SET maintenance_work_mem = '1GB'",
			"ALTER TABLE guard.idempotency_keys ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (scope, key)",
			"VACUUM (ANALYZE) guard.idempotency_keys",
			"CHECKPOINT",
		} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("run %q after filling the table: %w", sql, err)
			}
		}
		return nil
	})
}

func insertKeys(ctx context.Context, db *lab.DB, rows int64, headers string, body []byte, life time.Duration) error {
	if err := db.Exec(ctx, fillSQL, rows, headers, body, life); err != nil {
		return fmt.Errorf("fill the table with %d keys: %w", rows, err)
	}
	return nil
}

// size is what the table of keys takes on disk, in bytes.
type size struct {
	rows, table, index float64
}

func sizeOf(ctx context.Context, db *lab.DB) (size, error) {
	var found size
	return found, db.With(ctx, func(conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, `SELECT count(*), pg_table_size('guard.idempotency_keys'), pg_indexes_size('guard.idempotency_keys')
  FROM guard.idempotency_keys`).Scan(&found.rows, &found.table, &found.index)
		if err != nil {
			return fmt.Errorf("measure the table: %w", err)
		}
		return nil
	})
}
