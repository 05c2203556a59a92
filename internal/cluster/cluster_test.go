package cluster_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/cluster"
)

// TestMain lets the test binary be a program with a cluster, to be killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CLUSTER_TEST_DIR"); dir != "" {
		started, err := cluster.Start(context.Background(), cluster.Options{DataDir: dir})
		if err != nil {
			_, _ = os.Stdout.WriteString("error: " + err.Error() + "\n")
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString("pid " + strconv.Itoa(started.PID()) + "\n")
		select {}
	}
	os.Exit(m.Run())
}

// folder is one that PostgreSQL's account can pass through, as t.TempDir is not.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "payonce-cluster-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func start(t *testing.T, options cluster.Options) *cluster.Cluster {
	t.Helper()
	started, err := cluster.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = started.Stop(context.WithoutCancel(t.Context())) })
	return started
}

func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	var got string
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&got))
	return got
}

func run(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func TestDataOutlivesARestart(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	first := start(t, cluster.Options{DataDir: dir})
	require.Equal(t, "on", query(t, first.URL(), "SHOW fsync"))
	require.Equal(t, "on", query(t, first.URL(), "SHOW synchronous_commit"))
	run(t, first.URL(), "CREATE TABLE kept AS SELECT 1 AS n")
	require.NoError(t, first.Stop(t.Context()))
	second := start(t, cluster.Options{DataDir: dir})
	require.Equal(t, "1", query(t, second.URL(), "SELECT n::text FROM kept"))
}

func TestServerRunsUnprivileged(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	started := start(t, cluster.Options{DataDir: dir})
	info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(started.PID())))
	require.NoError(t, err)
	require.NotZero(t, info.Sys().(*syscall.Stat_t).Uid, "PostgreSQL must not run as root")
	password, err := os.Stat(filepath.Join(dir, "postgres", "password"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), password.Mode().Perm())
	_, err = pgx.Connect(t.Context(), strings.Replace(started.URL(), ":", ":wrong", 2))
	require.Error(t, err)
}

func TestCronIsPreloadedWhereInstalled(t *testing.T) {
	t.Parallel()
	started := start(t, cluster.Options{DataDir: folder(t)})
	if installed, _ := filepath.Glob("/usr/lib/postgresql/*/lib/pg_cron.so"); len(installed) == 0 {
		require.Empty(t, query(t, started.URL(), "SHOW shared_preload_libraries"))
		return
	}
	require.Equal(t, "pg_cron", query(t, started.URL(), "SHOW shared_preload_libraries"))
	require.Equal(t, "payonce", query(t, started.URL(), "SHOW cron.database_name"))
}

func TestSecondProgramIsRefused(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	start(t, cluster.Options{DataDir: dir})
	_, err := cluster.Start(t.Context(), cluster.Options{DataDir: dir})
	require.ErrorContains(t, err, "another payonce (pid "+strconv.Itoa(os.Getpid())+")")
	require.ErrorContains(t, err, dir)
}

func TestStalePIDFileOfAnUnrelatedProcess(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	first := start(t, cluster.Options{DataDir: dir})
	pidFile := filepath.Join(dir, "postgres", "data", "postmaster.pid")
	content, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	require.NoError(t, first.Stop(t.Context()))
	// After a crash and a reboot the number may belong to anybody: to us, here.
	stale := strings.Replace(string(content), strconv.Itoa(first.PID()), strconv.Itoa(os.Getppid()), 1)
	require.NoError(t, os.WriteFile(pidFile, []byte(stale), 0o600))
	second := start(t, cluster.Options{DataDir: dir})
	require.Equal(t, "1", query(t, second.URL(), "SELECT 1::text"))
}

func TestServerKilledAndRestarted(t *testing.T) {
	t.Parallel()
	started := start(t, cluster.Options{DataDir: folder(t)})
	run(t, started.URL(), "CREATE TABLE kept AS SELECT 1 AS n")
	started.Kill()
	_, err := pgx.Connect(t.Context(), started.URL())
	require.Error(t, err)
	require.NoError(t, started.Restart(t.Context()))
	require.Equal(t, "1", query(t, started.URL(), "SELECT n::text FROM kept"))
}

// A program that is killed takes its server down with it, and the next one
// finds the folder in order.
func TestProgramKilled(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), "CLUSTER_TEST_DIR="+dir)
	output, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	line := make([]byte, 64)
	n, err := output.Read(line)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "pid ")))
	require.NoError(t, err, string(line[:n]))
	require.NoError(t, program.Process.Signal(syscall.SIGKILL))
	_ = program.Wait()
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, 20*time.Second, 20*time.Millisecond)
	next := start(t, cluster.Options{DataDir: dir})
	require.Equal(t, "1", query(t, next.URL(), "SELECT 1::text"))
}

func TestFolderOutOfReachOfTheServersAccount(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	dir := t.TempDir() // below a folder that only we may enter
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o700))
	started := start(t, cluster.Options{DataDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Equal(t, "1", query(t, started.URL(), "SELECT 1::text"))
	place := query(t, started.URL(), "SHOW data_directory")
	if os.Geteuid() != 0 {
		require.Contains(t, place, dir)
		return
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(place)) })
	require.Contains(t, place, "/var/lib/payonce/")
	require.Contains(t, log.String(), place[:len(place)-len("/data")])
}

func TestClearErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(folder(t), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	otherVersion := folder(t)
	data := filepath.Join(otherVersion, "postgres", "data")
	require.NoError(t, os.MkdirAll(data, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("9\n"), 0o644))
	tests := map[string]struct {
		options cluster.Options
		says    string
	}{
		"the folder is a file":       {cluster.Options{DataDir: file}, "--data-dir"},
		"a folder below a file":      {cluster.Options{DataDir: filepath.Join(file, "below")}, "--data-dir"},
		"no binaries":                {cluster.Options{DataDir: folder(t), BinDir: "/nonexistent"}, "apt-get install postgresql"},
		"made by another PostgreSQL": {cluster.Options{DataDir: otherVersion}, "PostgreSQL 9, which is not installed"},
		"a setting that is refused": {
			cluster.Options{DataDir: folder(t), Settings: map[string]string{"max_connections": "many"}}, "max_connections",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := cluster.Start(t.Context(), test.options)
			require.ErrorContains(t, err, test.says)
		})
	}
}

// A folder without room, or without the right to write, shows in the error and
// not in a hang. Root may write everywhere, so it gets the full disk.
func TestFolderThatTakesNothing(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	says := "permission denied"
	if os.Geteuid() == 0 {
		require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=755"))
		t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
		says = "No space left on device"
	} else {
		require.NoError(t, os.Chmod(dir, 0o500))
	}
	_, err := cluster.Start(t.Context(), cluster.Options{DataDir: dir})
	require.ErrorContains(t, err, says)
}

func TestStandbyIsPromotedWithAllThatWasCommitted(t *testing.T) {
	t.Parallel()
	primary := start(t, cluster.Options{DataDir: folder(t)})
	standby, err := primary.Replicate(t.Context(), "second", "", cluster.Options{DataDir: folder(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop(context.Background())) })
	require.NoError(t, primary.Await(t.Context(), "second"))
	run(t, primary.URL(), "CREATE TABLE kept AS SELECT 'kept' AS word")
	require.Equal(t, "true", query(t, standby.URL(), "SELECT pg_is_in_recovery()::text"))
	primary.Kill()
	require.NoError(t, standby.Promote(t.Context()))
	require.Equal(t, "kept", query(t, standby.URL(), "SELECT word FROM kept"))
	run(t, standby.URL(), "INSERT INTO kept VALUES ('written')")
}
