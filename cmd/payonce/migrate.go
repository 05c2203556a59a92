package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/migrations"
)

var errNoDatabase = errors.New("--database-url (PAYONCE_DATABASE_URL) is needed")

func newMigrate() *cobra.Command {
	var s settings
	var purge bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to the schema of this version",
		Long: `Applies pending migrations. Connect as the role that shall own the schemas
guard and payments, directly and not through a transaction pooler.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withConnection(cmd.Context(), s.databaseURL, func(conn *pgx.Conn) error {
				before, want, err := migrations.Versions(cmd.Context(), conn)
				if err != nil {
					return err
				}
				if err := migrations.Apply(cmd.Context(), conn); err != nil {
					return err
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "schema version %d (was %d)\n", want, before); err != nil || !purge {
					return err
				}
				return letCronPurge(cmd.Context(), conn)
			})
		},
	}
	s.databaseFlags(cmd.Flags())
	cmd.Flags().BoolVar(&purge, "schedule-purge", false,
		"let pg_cron purge expired keys from now on; an error where the database does not have it")
	return cmd
}

func letCronPurge(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SELECT guard.schedule_purge()")
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Hint != "" {
		return fmt.Errorf("schedule the purge: %w\n%s", err, refused.Hint)
	}
	if err != nil {
		return fmt.Errorf("schedule the purge: %w", err)
	}
	return nil
}

func withConnection(ctx context.Context, url string, do func(*pgx.Conn) error) error {
	if url == "" {
		return errNoDatabase
	}
	conn, err := postgres.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}
