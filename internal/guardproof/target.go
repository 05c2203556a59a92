package guardproof

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// Target is a database in which the guard is installed, and two ways to it.
type Target struct {
	// App reaches it the way services do: any pooler and query exec mode,
	// with a role that has no more than payonce_app's rights.
	App *pgx.ConnConfig
	// Owner reaches it directly, with the rights of the guard's owner and to
	// create databases.
	Owner *pgx.ConnConfig
}

// replacement is a change to the text of one function of schema guard.
type replacement struct {
	function string
	old, new string
}

var databases atomic.Int64

// clone makes a throw-away copy of the target's database, to which nobody may
// be connected, and with it some replacements. App connections to a copy are
// direct ones.
func (t Target) clone(ctx context.Context, changes ...replacement) (Target, func(context.Context) error, error) {
	name := fmt.Sprintf("%s_%d", t.Owner.Database, databases.Add(1))
	admin := withDatabase(t.Owner, "postgres")
	if err := execute(ctx, admin, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s",
		pgx.Identifier{name}.Sanitize(), pgx.Identifier{t.Owner.Database}.Sanitize())); err != nil {
		return Target{}, nil, err
	}
	drop := func(ctx context.Context) error {
		return execute(ctx, admin, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", pgx.Identifier{name}.Sanitize()))
	}
	app := t.App.Copy()
	app.Host, app.Port, app.Database, app.Fallbacks = t.Owner.Host, t.Owner.Port, name, nil
	copied := Target{App: app, Owner: withDatabase(t.Owner, name)}
	if err := copied.install(ctx, changes); err != nil {
		return Target{}, nil, err
	}
	return copied, drop, nil
}

func (t Target) install(ctx context.Context, changes []replacement) error {
	conn, err := pgx.ConnectConfig(ctx, t.Owner)
	if err != nil {
		return fmt.Errorf("connect as owner: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, change := range changes {
		if err := change.install(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

// install fails when the text that it replaces is not there.
func (r replacement) install(ctx context.Context, conn *pgx.Conn) error {
	var definition string
	if err := conn.QueryRow(ctx, `SELECT pg_get_functiondef(oid) FROM pg_proc
		WHERE pronamespace = 'guard'::regnamespace AND proname = $1`, r.function).Scan(&definition); err != nil {
		return fmt.Errorf("read guard.%s: %w", r.function, err)
	}
	if !strings.Contains(definition, r.old) {
		return fmt.Errorf("guard.%s does not contain %q", r.function, r.old)
	}
	if _, err := conn.Exec(ctx, strings.ReplaceAll(definition, r.old, r.new)); err != nil {
		return fmt.Errorf("replace guard.%s: %w", r.function, err)
	}
	return nil
}

func withDatabase(config *pgx.ConnConfig, name string) *pgx.ConnConfig {
	config = config.Copy()
	config.Database = name
	return config
}

func execute(ctx context.Context, config *pgx.ConnConfig, sql string) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%.40s: %w", sql, err)
	}
	return nil
}
