package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/payonce/payonce/internal/cluster"
)

// localPrefix marks the folders of test servers; the number that follows is
// the process that made them.
const localPrefix = "payonce-test-"

// fast settings are for data that nobody needs after a crash.
func fast() map[string]string {
	return map[string]string{
		"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "300",
		"cron.database_name": "postgres",
	}
}

func startLocal(ctx context.Context) (*server, error) {
	sweepLocal()
	dir, err := localDir()
	if err != nil {
		return nil, err
	}
	started, err := cluster.Start(ctx, cluster.Options{DataDir: dir, Database: "postgres", Settings: fast()})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return prepare(ctx, &server{admin: started.URL(), stop: func() {
		_ = started.Stop(ctx)
		_ = os.RemoveAll(dir)
	}})
}

func localDir() (string, error) {
	dir, err := os.MkdirTemp("", localPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the test server: %w", err)
	}
	// PostgreSQL's account has to pass through.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
		return "", fmt.Errorf("open the test server's folder: %w", err)
	}
	return dir, nil
}

// sweepLocal removes what killed test processes left behind. Their servers
// went down with them.
func sweepLocal() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), localPrefix+"*"))
	for _, dir := range left {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), localPrefix), "-")
		pid, err := strconv.Atoi(number)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}

// Instance is a local server of one test's own, to be stopped, killed and
// restarted.
type Instance struct {
	*cluster.Cluster
	server *server
}

// ServerOption changes how Server starts its server.
type ServerOption func(*cluster.Options)

// WithBinDir takes the programs of one PostgreSQL installation.
func WithBinDir(dir string) ServerOption {
	return func(o *cluster.Options) { o.BinDir = dir }
}

// WithSetting sets one PostgreSQL setting.
func WithSetting(name, value string) ServerOption {
	return func(o *cluster.Options) { o.Settings[name] = value }
}

// WithoutChecksums makes a server whose pages have no checksums.
func WithoutChecksums() ServerOption {
	return func(o *cluster.Options) { o.NoChecksums = true }
}

// Durable keeps what was committed through a crash, as a real server does.
func Durable() ServerOption {
	return func(o *cluster.Options) {
		for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
			delete(o.Settings, name)
		}
	}
}

// Server starts a server from the local binaries for this test alone.
func Server(t testing.TB, options ...ServerOption) *Instance {
	t.Helper()
	dir, err := localDir()
	if err != nil {
		t.Fatal(err)
	}
	o := cluster.Options{DataDir: dir, Database: "postgres", Settings: fast()}
	for _, option := range options {
		option(&o)
	}
	ctx := t.Context()
	started, err := cluster.Start(ctx, o)
	if err != nil {
		t.Fatalf("start a PostgreSQL server for this test: %v", errors.Join(err, os.RemoveAll(dir)))
	}
	s, err := prepare(ctx, &server{admin: started.URL(), stop: func() {
		_ = started.Stop(context.WithoutCancel(ctx))
		_ = os.RemoveAll(dir)
	}})
	if err != nil {
		t.Fatalf("prepare a PostgreSQL server for this test: %v", err)
	}
	t.Cleanup(s.stop)
	return &Instance{Cluster: started, server: s}
}

// New makes a migrated database on this server.
func (i *Instance) New(t testing.TB) *DB {
	t.Helper()
	return i.server.database(t, true)
}

// Empty makes a database without our schemas on this server.
func (i *Instance) Empty(t testing.TB) *DB {
	t.Helper()
	return i.server.database(t, false)
}

// Stop shuts the server down.
func (i *Instance) Stop(t testing.TB) {
	t.Helper()
	if err := i.Cluster.Stop(t.Context()); err != nil {
		t.Fatalf("stop the test's server: %v", err)
	}
}

// Restart starts the server again at the same URL.
func (i *Instance) Restart(t testing.TB) {
	t.Helper()
	if err := i.Cluster.Restart(t.Context()); err != nil {
		t.Fatalf("restart the test's server: %v", err)
	}
}
