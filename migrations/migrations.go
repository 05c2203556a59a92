// Package migrations brings a database to the schema that this version of
// payonce needs: tables by hand, functions as a snapshot of the sql folder.
package migrations

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"
)

//go:embed *.sql all:snapshots
var files embed.FS

// Files are the migrations by name, and snapshots/<name>/ with the functions
// that one of them installs.
func Files() fs.FS { return files }

// VersionTable holds the number of the last migration applied. It stands in
// the public schema, since the first migration makes the others.
const VersionTable = "public.payonce_schema_version"

// Apply brings the database behind conn to the newest schema. It is safe to
// call from several processes at once: tern holds a session advisory lock,
// hence conn must be a direct connection, not one through a transaction pooler.
func Apply(ctx context.Context, conn *pgx.Conn) error {
	migrator, err := newMigrator(ctx, conn)
	if err != nil {
		return err
	}
	if err := migrator.Migrate(ctx); err != nil {
		return fmt.Errorf("apply migrations: %w", err)
	}
	return nil
}

// Versions tells the schema version that the database has and the newest one.
// A database that was never migrated has version 0.
func Versions(ctx context.Context, conn *pgx.Conn) (have, want int32, err error) {
	migrator, err := newMigrator(ctx, conn)
	if err != nil {
		return 0, 0, err
	}
	have, err = migrator.GetCurrentVersion(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read schema version: %w", err)
	}
	return have, int32(len(migrator.Migrations)), nil //nolint:gosec // a handful
}

// Newest tells the schema version of this program, without a database.
func Newest() (int32, error) {
	found, err := migrate.FindMigrations(files)
	if err != nil {
		return 0, fmt.Errorf("find migrations: %w", err)
	}
	return int32(len(found)), nil //nolint:gosec // a handful
}

func newMigrator(ctx context.Context, conn *pgx.Conn) (*migrate.Migrator, error) {
	migrator, err := migrate.NewMigrator(ctx, conn, VersionTable)
	if err != nil {
		return nil, fmt.Errorf("prepare migrations: %w", err)
	}
	if err := migrator.LoadMigrations(files); err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	return migrator, nil
}
