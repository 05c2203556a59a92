// Package lab is where the benchmark measures: a PostgreSQL server of its own
// with durable commits, its databases, and what machine it all runs on.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/internal/cluster"
	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/unguarded"
	"github.com/payonce/payonce/migrations"
)

// appRole is what the measured calls connect as: it may do what payonce_app
// may and no more, as a service would.
const (
	appRole     = "payonce_bench_app"
	appPassword = "payonce_bench_app" //nolint:gosec // of a server that only this machine reaches, for minutes
)

// settings are what differs from PostgreSQL's defaults. None of them touches
// what a commit promises; durable holds the server to that.
func settings() map[string]string {
	return map[string]string{
		"shared_preload_libraries": "pg_stat_statements",
		"pg_stat_statements.track": "top",
		"track_io_timing":          "on",
		"track_wal_io_timing":      "on",
		"max_connections":          "400",
		"shared_buffers":           "2GB",
		"max_wal_size":             "8GB",
	}
}

// mustBe are the settings without which a commit is not durable.
var mustBe = map[string]string{
	"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
}

// Lab is a running server.
type Lab struct {
	// Then is run in each database once it is migrated: to measure a guard that
	// was changed.
	Then string

	cluster *cluster.Cluster
	dir     string
}

// Start brings the server up, with its files in a folder of its own below dir,
// which has to be on a disk: a file system in memory has nothing to flush.
func Start(ctx context.Context, dir string) (*Lab, error) {
	folder, err := os.MkdirTemp(dir, "payonce-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the server: %w", err)
	}
	l := &Lab{dir: folder}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, l.Stop(context.WithoutCancel(ctx)))
	}
	return l, nil
}

func (l *Lab) start(ctx context.Context) error {
	if inMemory(l.dir) {
		return fmt.Errorf("%s is a file system in memory: name a folder on a disk with --data-dir", l.dir)
	}
	// PostgreSQL's account has to pass through.
	if err := os.Chmod(l.dir, 0o755); err != nil { //nolint:gosec // see above
		return fmt.Errorf("open the server's folder: %w", err)
	}
	var err error
	l.cluster, err = cluster.Start(ctx, cluster.Options{DataDir: l.dir, Database: "postgres", Settings: settings()})
	if err != nil {
		return err
	}
	return l.With(ctx, "postgres", func(conn *pgx.Conn) error {
		if err := durable(ctx, conn); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "CREATE ROLE payonce_app NOLOGIN; "+
			"CREATE ROLE "+appRole+" LOGIN PASSWORD '"+appPassword+"' IN ROLE payonce_app")
		if err != nil {
			return fmt.Errorf("make the role for the benchmark: %w", err)
		}
		return nil
	})
}

// Stop shuts the server down and removes its files.
func (l *Lab) Stop(ctx context.Context) error {
	var err error
	if l.cluster != nil {
		err = l.cluster.Stop(ctx)
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}

// Dir is the folder of the server's files.
func (l *Lab) Dir() string { return l.dir }

// durable refuses a server that answers a commit before it is on disk.
func durable(ctx context.Context, conn *pgx.Conn) error {
	for name, want := range mustBe {
		var got string
		if err := conn.QueryRow(ctx, "SELECT pg_catalog.current_setting($1)", name).Scan(&got); err != nil {
			return fmt.Errorf("read setting %s: %w", name, err)
		}
		if got != want {
			return fmt.Errorf("%s is %s: commits would not be durable, and nothing measured here would mean anything", name, got)
		}
	}
	return nil
}

// With runs do on a connection of the superuser.
func (l *Lab) With(ctx context.Context, database string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, l.urlOf(database, nil))
	if err != nil {
		return fmt.Errorf("connect to database %s: %w", database, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}

func (l *Lab) urlOf(database string, as *url.Userinfo) string {
	u, err := url.Parse(l.cluster.URL())
	if err != nil {
		return l.cluster.URL()
	}
	u.Path = "/" + database
	if as != nil {
		u.User = as
	}
	return u.String()
}

// DB is a migrated database of the server.
type DB struct {
	lab  *Lab
	Name string
	// URL is the superuser's, AppURL that of a role that has payonce_app only.
	URL    string
	AppURL string
}

// Database makes a migrated database, with the unguarded handler's table too.
func (l *Lab) Database(ctx context.Context, name string) (*DB, error) {
	err := l.With(ctx, "postgres", func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
			return fmt.Errorf("create database %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	db := &DB{
		lab: l, Name: name, URL: l.urlOf(name, nil),
		AppURL: l.urlOf(name, url.UserPassword(appRole, appPassword)),
	}
	return db, db.With(ctx, func(conn *pgx.Conn) error {
		if err := migrations.Apply(ctx, conn); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "CREATE EXTENSION pg_stat_statements"); err != nil {
			return fmt.Errorf("create extension pg_stat_statements: %w", err)
		}
		if _, err := conn.Exec(ctx, l.Then); err != nil {
			return fmt.Errorf("change database %s: %w", name, err)
		}
		return unguarded.Install(ctx, conn)
	})
}

// With runs do on a connection of the superuser.
func (d *DB) With(ctx context.Context, do func(*pgx.Conn) error) error {
	return d.lab.With(ctx, d.Name, do)
}

// Exec runs statements as the superuser.
func (d *DB) Exec(ctx context.Context, sql string, args ...any) error {
	return d.With(ctx, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			return fmt.Errorf("run %.60q: %w", sql, err)
		}
		return nil
	})
}

// Grant lets the measured calls use what an experiment made for comparison in
// a schema.
func (d *DB) Grant(ctx context.Context, schema string) error {
	name := pgx.Identifier{schema}.Sanitize()
	return d.Exec(ctx, "GRANT USAGE ON SCHEMA "+name+" TO payonce_app; "+
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+name+" TO payonce_app; "+
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA "+name+" TO payonce_app; "+
		"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "+name+" TO payonce_app")
}

// Pool opens the pool that the product uses, of the given size, with all its
// connections made, as the app role. Further statements are prepared with it.
func (d *DB) Pool(ctx context.Context, size int, statements ...string) (*pgxpool.Pool, error) {
	return d.PoolAt(ctx, "", size, statements...)
}

// PoolAt is Pool through another address than the server's own, such as a
// proxy's; empty: the server's.
func (d *DB) PoolAt(ctx context.Context, address string, size int, statements ...string) (*pgxpool.Pool, error) {
	at, err := url.Parse(d.AppURL)
	if err != nil {
		return nil, fmt.Errorf("read the app role's URL: %w", err)
	}
	if address != "" {
		at.Host = address
	}
	query := at.Query()
	query.Set("pool_max_conns", strconv.Itoa(size))
	at.RawQuery = query.Encode()
	all := append(append(guard.Statements(), payments.Statements()...), unguarded.Statements()...)
	pool, err := postgres.Open(ctx, at.String(), append(all, statements...)...)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, pool, size); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// fill makes all connections of the pool, so that none is made while measuring.
func fill(ctx context.Context, pool *pgxpool.Pool, size int) error {
	held := make([]*pgxpool.Conn, 0, size)
	defer func() {
		for _, conn := range held {
			conn.Release()
		}
	}()
	for range size {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("fill the pool: %w", err)
		}
		held = append(held, conn)
	}
	return durable(ctx, held[0].Conn())
}

// Address is where the server listens.
func (d *DB) Address() (string, error) {
	u, err := url.Parse(d.URL)
	if err != nil {
		return "", fmt.Errorf("read the server's URL: %w", err)
	}
	return net.JoinHostPort(u.Hostname(), u.Port()), nil
}
