package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// A primary with two real standbys, in each arrangement that matters.
func TestStandbys(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgtest.Durable(), pgtest.WithSetting("shared_preload_libraries", ""))
	primary := server.New(t).Conn(t)
	unattached := codes(t, primary)
	require.Equal(t, []Code{PgCronAbsent}, unattached)

	one := startStandby(t, primary, "one")
	require.Equal(t, []Code{StandbyAsynchronous, PgCronAbsent}, codes(t, primary))
	onStandby := codes(t, one)
	require.Contains(t, onStandby, OnStandby)
	require.NotContains(t, onStandby, CheckFailed)
	app := again(t, primary, "payonce_test_app")
	require.Equal(t, []Code{StandbysHidden, PgCronAbsent}, codes(t, app))

	synchronous := func(names string, states ...string) {
		t.Helper()
		set(t, primary, "synchronous_standby_names", names)
		require.Eventually(t, func() bool {
			rows, err := primary.Query(t.Context(), `SELECT sync_state FROM pg_stat_replication ORDER BY application_name`)
			if err != nil {
				return false
			}
			now, err := pgx.CollectRows(rows, pgx.RowTo[string])
			return err == nil && fmt.Sprint(now) == fmt.Sprint(states)
		}, 20*time.Second, 20*time.Millisecond)
	}
	synchronous("one", "sync")
	require.Equal(t, []Code{PgCronAbsent}, codes(t, primary))

	for _, value := range []string{"local", "remote_write"} {
		run(t, primary, here(`ALTER DATABASE %I SET synchronous_commit = `+value))
		require.Equal(t, []Code{CommitNotReplicated, PgCronAbsent}, codes(t, again(t, primary, "")))
	}
	run(t, primary, here(`ALTER DATABASE %I RESET synchronous_commit`))

	startStandby(t, primary, "two")
	synchronous("one", "sync", "async")
	require.Equal(t, []Code{StandbyAsynchronous, PgCronAbsent}, codes(t, primary))
	synchronous("FIRST 1 (one, two)", "sync", "potential")
	require.Equal(t, []Code{StandbyAsynchronous, PgCronAbsent}, codes(t, primary))
	synchronous("FIRST 2 (one, two)", "sync", "sync")
	require.Equal(t, []Code{PgCronAbsent}, codes(t, primary))
	synchronous("ANY 1 (one, two)", "quorum", "quorum")
	require.Equal(t, []Code{StandbyQuorum, PgCronAbsent}, codes(t, primary))
	synchronous("ANY 2 (one, two)", "quorum", "quorum")
	require.Equal(t, []Code{PgCronAbsent}, codes(t, primary))
	synchronous("three", "async", "async")
	require.Equal(t, []Code{StandbyAsynchronous, StandbyAsynchronous, StandbyMissing, PgCronAbsent}, codes(t, primary))
	// Commits wait for a standby that is not there, the dropping of this test's
	// database too.
	synchronous("", "async", "async")
}

// startStandby makes a streaming standby of a primary and connects to the same
// database of it.
func startStandby(t *testing.T, primary *pgx.Conn, name string) *pgx.Conn {
	t.Helper()
	var bin string
	require.NoError(t, primary.QueryRow(t.Context(), `SELECT setting FROM pg_config WHERE name = 'BINDIR'`).Scan(&bin))
	dir, err := os.MkdirTemp("", "payonce-standby-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	credential := serverAccount(t, dir)
	data := filepath.Join(dir, "data")
	c := primary.Config()
	upstream := fmt.Sprintf("host=%s port=%d user=%s password=%s application_name=%s", c.Host, c.Port, c.User, c.Password, name)

	copied := exec.CommandContext(t.Context(), filepath.Join(bin, "pg_basebackup"),
		"-D", data, "-d", upstream, "-R", "-X", "stream", "-c", "fast")
	copied.Dir, copied.SysProcAttr = dir, &syscall.SysProcAttr{Credential: credential}
	output, err := copied.CombinedOutput()
	require.NoError(t, err, "%s", output)

	port := freePort(t)
	// The arguments of the primary's command line are not in its files.
	var connections string
	require.NoError(t, primary.QueryRow(t.Context(), `SELECT current_setting('max_connections')`).Scan(&connections))
	process := exec.CommandContext(t.Context(), filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections="+connections,
		"-c", "primary_conninfo="+upstream)
	process.Dir, process.SysProcAttr = dir, &syscall.SysProcAttr{Credential: credential}
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	process.Stdout, process.Stderr = log, log
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGQUIT)
		_ = process.Wait()
		_ = log.Close()
	})

	config := c.Copy()
	config.Port, config.Fallbacks = uint16(port), nil //nolint:gosec // a port
	var conn *pgx.Conn
	require.Eventually(t, func() bool {
		conn, err = pgx.ConnectConfig(t.Context(), config)
		return err == nil
	}, 30*time.Second, 50*time.Millisecond, "the standby did not start")
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	require.Eventually(t, func() bool {
		var streaming bool
		err := primary.QueryRow(t.Context(), `
			SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming')`, name).Scan(&streaming)
		return err == nil && streaming
	}, 30*time.Second, 20*time.Millisecond, "the standby does not stream")
	return conn
}

// serverAccount gives a folder to the account that may run PostgreSQL, which
// refuses to run as root.
func serverAccount(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	require.NoError(t, err)
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, int(uid), int(gid)))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}
