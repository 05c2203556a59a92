package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/payonce/payonce/internal/cluster"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/migrations"
)

// openDatabase returns the URL of the database to use and a function that
// stops what was started for it.
func (s *settings) openDatabase(ctx context.Context, log *slog.Logger) (string, func(), error) {
	if s.databaseURL != "" {
		return s.databaseURL, func() {}, nil
	}
	s.autoMigrate = true
	private, err := cluster.Start(ctx, cluster.Options{DataDir: s.dataDir, Logger: log})
	if err != nil {
		return "", nil, err
	}
	stop := func() {
		if err := private.Stop(context.WithoutCancel(ctx)); err != nil {
			log.Error("private database cluster did not stop", "error", err)
		}
	}
	return private.URL(), stop, nil
}

// schedulePurge lets pg_cron purge the private cluster, where it is loaded.
func schedulePurge(ctx context.Context, conn *pgx.Conn) error {
	var loaded bool
	const sql = "SELECT pg_catalog.current_setting('cron.database_name', true) = pg_catalog.current_database()"
	if err := conn.QueryRow(ctx, "SELECT coalesce(("+sql+"), false)").Scan(&loaded); err != nil {
		return fmt.Errorf("look for pg_cron: %w", err)
	}
	if !loaded {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_cron; SELECT guard.schedule_purge()"); err != nil {
		return fmt.Errorf("schedule the purge: %w", err)
	}
	return nil
}

// checkSchema applies pending migrations where that is wanted, and otherwise
// refuses a schema that this version was not made for.
func (s *settings) checkSchema(ctx context.Context, url string) error {
	conn, err := postgres.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if s.autoMigrate {
		if err := migrations.Apply(ctx, conn); err != nil {
			return err
		}
		if s.databaseURL == "" {
			return schedulePurge(ctx, conn)
		}
		return nil
	}
	have, want, err := migrations.Versions(ctx, conn)
	if err != nil {
		return err
	}
	if have != want {
		return fmt.Errorf("the database has schema version %d, this payonce needs %d: "+
			"run `payonce migrate`, or start with --auto-migrate", have, want)
	}
	return nil
}
