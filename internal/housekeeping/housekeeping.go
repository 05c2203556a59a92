// Package housekeeping purges expired keys where pg_cron does not.
package housekeeping

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	jobSQL   = `SELECT coalesce(active, false) FROM guard.purge_job()`
	purgeSQL = `CALL guard.purge()`
)

// Purge runs guard.purge now and then again after each interval, until ctx
// ends; not while pg_cron's job is active. No answer depends on it, so its
// errors are only logged.
func Purge(ctx context.Context, pool *pgxpool.Pool, interval time.Duration, log *slog.Logger) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := purgeOnce(ctx, pool); err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "purge of expired keys failed; the next one is due later", "after", interval, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func purgeOnce(ctx context.Context, pool *pgxpool.Pool) error {
	var scheduled bool
	if err := pool.QueryRow(ctx, jobSQL).Scan(&scheduled); err != nil {
		return fmt.Errorf("ask for pg_cron's purge job: %w", err)
	}
	if scheduled {
		return nil
	}
	if _, err := pool.Exec(ctx, purgeSQL); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}
