// Package pgtest gives each test a PostgreSQL database of its own.
//
// The server comes from PAYONCE_TEST_DATABASE_URL (a superuser's URL) if that
// is set; else from a Docker daemon, when one answers; else from the local
// PostgreSQL binaries. PAYONCE_TEST_SOURCE (docker or local) forces one of the
// last two. A test is never skipped for want of a database.
package pgtest

import (
	"context"
	_ "embed" // the constraints that all tests run with
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/migrations"
)

//go:embed checks.sql
var checks string

// appRole is a login role that may do what payonce_app may and no more.
const (
	appRole     = "payonce_test_app"
	appPassword = "payonce_test_app" //nolint:gosec // of throw-away test databases
)

// server is one PostgreSQL server with a migrated template database.
type server struct {
	admin    string // URL of a superuser
	stop     func()
	template string
	made     atomic.Int64
}

// shared is the server that the tests of one binary share.
var shared struct {
	once   sync.Once
	server *server
	err    error
}

// Main runs a package's tests and stops what they started. Call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.stop()
	}
	os.Exit(code)
}

// DB is one test's database.
type DB struct {
	// URL connects as a superuser, the owner of the schemas.
	URL string
	// AppURL connects as a role that has no more than payonce_app.
	AppURL string
}

// New gives the test a migrated database.
func New(t testing.TB) *DB {
	t.Helper()
	return sharedServer(t).database(t, true)
}

// Empty gives the test a database without our schemas.
func Empty(t testing.TB) *DB {
	t.Helper()
	return sharedServer(t).database(t, false)
}

// Conn opens a connection, with an empty search_path so that a name without a
// schema fails, and closes it when the test ends.
func (db *DB) Conn(t testing.TB) *pgx.Conn {
	t.Helper()
	return connect(t, db.URL)
}

// AppConn is Conn as the role that has no more than payonce_app.
func (db *DB) AppConn(t testing.TB) *pgx.Conn {
	t.Helper()
	return connect(t, db.AppURL)
}

// Pool opens a pool as Conn opens a connection.
func (db *DB) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatalf("read the test database's URL: %v", err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = ""
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("open a pool on the test database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatalf("read the test database's URL: %v", err)
	}
	config.RuntimeParams["search_path"] = ""
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("connect to the test database: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func sharedServer(t testing.TB) *server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = startShared() })
	if shared.err != nil {
		t.Fatalf("no PostgreSQL for this test: %v", shared.err)
	}
	return shared.server
}

func startShared() (*server, error) {
	ctx := context.Background()
	if given := os.Getenv("PAYONCE_TEST_DATABASE_URL"); given != "" {
		return prepare(ctx, &server{admin: given, stop: func() {}})
	}
	switch source := os.Getenv("PAYONCE_TEST_SOURCE"); source {
	case "docker":
		return startDocker(ctx)
	case "local":
		return startLocal(ctx)
	case "":
		if dockerAnswers() {
			return startDocker(ctx)
		}
		return startLocal(ctx)
	default:
		return nil, fmt.Errorf("PAYONCE_TEST_SOURCE is %q; it may be docker or local", source)
	}
}

// prepare makes the test roles and the migrated template.
func prepare(ctx context.Context, s *server) (*server, error) {
	s.template = fmt.Sprintf("payonce_template_%d", os.Getpid())
	if err := s.makeTemplate(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) makeTemplate(ctx context.Context) error {
	admin, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	defer func() { _ = admin.Close(ctx) }()
	if err := makeAppRole(ctx, admin); err != nil {
		return err
	}
	drop := "DROP DATABASE IF EXISTS " + s.template
	if _, err := admin.Exec(ctx, drop); err != nil {
		return fmt.Errorf("drop an old template: %w", err)
	}
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+s.template); err != nil {
		return fmt.Errorf("create the template: %w", err)
	}
	stop := s.stop
	s.stop = func() {
		if conn, err := pgx.Connect(ctx, s.admin); err == nil {
			_, _ = conn.Exec(ctx, drop)
			_ = conn.Close(ctx)
		}
		stop()
	}
	template, err := pgx.Connect(ctx, s.urlOf(s.template, nil))
	if err != nil {
		return fmt.Errorf("connect to the template: %w", err)
	}
	defer func() { _ = template.Close(ctx) }()
	if err := migrations.Apply(ctx, template); err != nil {
		return err
	}
	if _, err := template.Exec(ctx, checks); err != nil {
		return fmt.Errorf("add the checks of the tests: %w", err)
	}
	return nil
}

// makeAppRole makes the role for tests. Several test binaries may do so on one
// server at once, hence the errors that are let pass.
func makeAppRole(ctx context.Context, admin *pgx.Conn) error {
	_, err := admin.Exec(ctx, `DO $do$
BEGIN
    CREATE ROLE payonce_app NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $do$;
DO $do$
BEGIN
    CREATE ROLE `+appRole+` LOGIN PASSWORD '`+appPassword+`' IN ROLE payonce_app;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $do$;`)
	if err != nil {
		return fmt.Errorf("make the role for tests: %w", err)
	}
	return nil
}

func (s *server) database(t testing.TB, migrated bool) *DB {
	t.Helper()
	ctx := t.Context()
	admin, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		t.Fatalf("connect to the test server: %v", err)
	}
	defer func() { _ = admin.Close(ctx) }()
	name := fmt.Sprintf("payonce_test_%d_%d", os.Getpid(), s.made.Add(1))
	create := "CREATE DATABASE " + name
	if migrated {
		create += " TEMPLATE " + s.template
	}
	if _, err := admin.Exec(ctx, create); err != nil {
		t.Fatalf("create a test database: %v", err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		conn, err := pgx.Connect(ctx, s.admin)
		if err != nil {
			return // the test stopped its own server
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	return &DB{URL: s.urlOf(name, nil), AppURL: s.urlOf(name, url.UserPassword(appRole, appPassword))}
}

func (s *server) urlOf(database string, as *url.Userinfo) string {
	u, err := url.Parse(s.admin)
	if err != nil {
		return s.admin
	}
	u.Path = "/" + database
	if as != nil {
		u.User = as
	}
	return u.String()
}
