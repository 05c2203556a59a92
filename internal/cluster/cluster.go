// Package cluster runs a private PostgreSQL server from binaries that are
// installed on this machine: for a first look, and for tests.
//
// The server listens on a loopback port with a random password, keeps its
// files in a folder of its own and stops with the program that started it.
package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/payonce/payonce/internal/childproc"
	"github.com/payonce/payonce/internal/freeport"
)

const (
	superuser    = "payonce"
	startTimeout = 60 * time.Second
	stopTimeout  = 15 * time.Second
)

// Options say where the server lives and how it runs.
type Options struct {
	// DataDir is the folder under which the server's files are kept.
	DataDir string
	// Database is created when it is missing; empty: payonce.
	Database string
	// BinDir holds initdb and postgres; empty: the newest that is found.
	BinDir string
	// Settings are further PostgreSQL settings, such as fsync.
	Settings map[string]string
	// NoChecksums makes a server without checksums of its pages, which
	// PostgreSQL 18 and newer have unless told not to.
	NoChecksums bool
	Logger      *slog.Logger
}

// Cluster is a running private server.
type Cluster struct {
	dir      string
	binaries binaries
	account  account
	options  Options
	password string
	port     int
	lock     *os.File
	process  *exec.Cmd
	exited   chan struct{}
}

// Start brings the server up, and makes its files when there are none yet.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Database == "" {
		options.Database = "payonce"
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	account, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err := account.home(options.DataDir, options.Logger)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, account: account, options: options}
	if c.lock, err = lockFolder(dir); err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.lock.Close())
	}
	return c, nil
}

func (c *Cluster) dataDir() string      { return filepath.Join(c.dir, "data") }
func (c *Cluster) passwordFile() string { return filepath.Join(c.dir, "password") }
func (c *Cluster) logFile() string      { return filepath.Join(c.dir, "server.log") }

// URL is the libpq URL of the server's superuser and database.
func (c *Cluster) URL() string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, c.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)), Path: "/" + c.options.Database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// PID is the process id of the server.
func (c *Cluster) PID() int { return c.process.Process.Pid }

func (c *Cluster) start(ctx context.Context) error {
	if err := c.chooseBinaries(ctx); err != nil {
		return err
	}
	if err := c.initialise(ctx); err != nil {
		return err
	}
	password, err := os.ReadFile(c.passwordFile())
	if err != nil {
		return fmt.Errorf("read the private cluster's password: %w", err)
	}
	c.password = strings.TrimSpace(string(password))
	if err := c.clearStalePID(ctx); err != nil {
		return err
	}
	if err := c.launch(ctx); err != nil {
		return err
	}
	return c.createDatabase(ctx)
}

// chooseBinaries takes those that the files were made with, or the newest.
func (c *Cluster) chooseBinaries(ctx context.Context) error {
	found, err := findBinaries(ctx, c.options.BinDir)
	if err != nil {
		return err
	}
	made, err := os.ReadFile(filepath.Join(c.dataDir(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		c.binaries = found[0]
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the private cluster's version: %w", err)
	}
	version := strings.TrimSpace(string(made))
	for _, candidate := range found {
		if strconv.Itoa(candidate.major) == version {
			c.binaries = candidate
			return nil
		}
	}
	return fmt.Errorf("%s was made by PostgreSQL %s, which is not installed here: install it, or remove the folder to start anew",
		c.dataDir(), version)
}

// initialise makes the server's files, all or nothing: a first start that was
// interrupted leaves nothing that looks finished.
func (c *Cluster) initialise(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.dataDir(), "PG_VERSION")); err == nil {
		return nil
	}
	unfinished := c.dataDir() + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("remove an unfinished private cluster: %w", err)
	}
	var random [24]byte
	if _, err := rand.Read(random[:]); err != nil {
		return fmt.Errorf("make a password: %w", err)
	}
	password := base64.RawURLEncoding.EncodeToString(random[:])
	if err := c.account.writeFile(c.passwordFile(), password+"\n"); err != nil {
		return err
	}
	c.options.Logger.InfoContext(ctx, "making a private database cluster", "folder", c.dir, "postgresql", c.binaries.major)
	args := []string{
		"--pgdata", unfinished, "--username", superuser, "--pwfile", c.passwordFile(), "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--locale", "C", "--no-instructions",
	}
	if c.options.NoChecksums && c.binaries.major >= 18 {
		args = append(args, "--no-data-checksums")
	}
	initdb := exec.CommandContext(ctx, c.binaries.path("initdb"), args...)
	initdb.Dir = c.dir
	c.account.apply(initdb)
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb in %s: %w\n%s", c.dir, err, tail(string(output)))
	}
	if err := os.Rename(unfinished, c.dataDir()); err != nil {
		return fmt.Errorf("put the private cluster in place: %w", err)
	}
	return nil
}

// clearStalePID waits for a server whose program was killed to go away, and
// removes a pid file that a crash left behind. PostgreSQL itself refuses to
// start when the number in it now belongs to any other process.
func (c *Cluster) clearStalePID(ctx context.Context) error {
	file := filepath.Join(c.dataDir(), "postmaster.pid")
	deadline := time.Now().Add(stopTimeout)
	for {
		content, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(string(content), "\n", 2)[0]))
		if pid <= 0 || !runsServer(ctx, pid, c.dataDir()) {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove a stale pid file: %w", err)
			}
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("another PostgreSQL (pid %d) uses %s: stop it, or choose another --data-dir", pid, c.dataDir())
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// launch starts the server on a free port. The port is free when it is chosen
// and may be taken when the server wants it, hence a few tries.
func (c *Cluster) launch(ctx context.Context) error {
	var err error
	for range 3 {
		if c.port, err = freePort(ctx); err != nil {
			return err
		}
		if err = c.launchOn(ctx); err == nil || !strings.Contains(err.Error(), "Address already in use") {
			return err
		}
	}
	return err
}

func (c *Cluster) launchOn(ctx context.Context) error {
	log, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the private cluster's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open the private cluster's log: %w", err)
	}
	args := []string{"-D", c.dataDir(), "-p", strconv.Itoa(c.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
	settings := c.binaries.cronSettings(c.options.Database)
	maps.Copy(settings, c.options.Settings)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	c.process = exec.Command(c.binaries.path("postgres"), args...) //nolint:noctx // outlives the call; Stop ends it
	c.process.Dir = c.dir
	c.process.Stdout, c.process.Stderr = log, log
	c.account.apply(c.process)
	c.exited = make(chan struct{})
	if err := childproc.Start(c.process, syscall.SIGINT, c.exited); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := c.awaitReady(ctx); err != nil {
		stopped := c.stopProcess(context.WithoutCancel(ctx))
		return errors.Join(fmt.Errorf("start PostgreSQL in %s: %w\n%s", c.dir, err, c.logTail(from)), stopped)
	}
	return nil
}

func (c *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		conn, err := c.connect(ctx)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.exited:
			return errors.New("it stopped at once; its log ends with")
		case <-ctx.Done():
			return fmt.Errorf("it did not answer within %s: %w", startTimeout, err)
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// connect opens a connection to the database that every server has.
func (c *Cluster) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(c.URL())
	if err != nil {
		return nil, fmt.Errorf("read the private cluster's URL: %w", err)
	}
	config.Database = "postgres"
	return pgx.ConnectConfig(ctx, config)
}

func (c *Cluster) createDatabase(ctx context.Context) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to the private cluster: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var exists bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = $1)", c.options.Database).Scan(&exists)
	if err == nil && !exists {
		_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{c.options.Database}.Sanitize())
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", c.options.Database, err)
	}
	return nil
}

// Stop shuts the server down: running statements are rolled back, nothing that
// was acknowledged is lost.
func (c *Cluster) Stop(ctx context.Context) error {
	err := c.stopProcess(ctx)
	if c.lock != nil {
		err = errors.Join(err, c.lock.Close())
		c.lock = nil
	}
	return err
}

func (c *Cluster) stopProcess(ctx context.Context) error {
	// SIGINT is PostgreSQL's fast shutdown, SIGQUIT its immediate one.
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		_ = c.process.Process.Signal(signal)
		select {
		case <-c.exited:
			return nil
		case <-ctx.Done():
		case <-time.After(stopTimeout):
		}
	}
	<-c.exited
	return nil
}

// Kill ends the server with SIGKILL, as a crash would.
func (c *Cluster) Kill() {
	_ = c.process.Process.Signal(syscall.SIGKILL)
	<-c.exited
}

// Restart starts a server that was killed, or that is stopped here, again: on
// the same port, so that its URL stays.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.stopProcess(ctx); err != nil {
		return err
	}
	if err := c.clearStalePID(ctx); err != nil {
		return err
	}
	for {
		err := c.launchOn(ctx)
		// The dead server's children may still be going away.
		if err == nil || !strings.Contains(err.Error(), "shared memory block") {
			return err
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}

func (c *Cluster) logTail(from int64) string {
	content, err := os.ReadFile(c.logFile())
	if err != nil || int64(len(content)) < from {
		return ""
	}
	return tail(string(content[from:]))
}

// tail keeps the end of what a program printed.
func tail(output string) string {
	const lines = 15
	all := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func freePort(ctx context.Context) (int, error) {
	address, err := freeport.Address(ctx)
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("read %q: %w", address, err)
	}
	return strconv.Atoi(port)
}

func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}
