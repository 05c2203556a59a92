package guardproof

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestFF11_PgBouncer runs the suite through PgBouncer in transaction mode (FF-11),
// where each transaction may meet another server connection. Older PgBouncers,
// Debian 12's 1.18 among them, do not follow prepared statements there: pgx
// must then send none, hence the exec modes.
func TestFF11_PgBouncer(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			target := newTarget(t)
			through(t, &target)
			target.App.DefaultQueryExecMode = mode
			require.True(t, changesBackends(t, target), "transactions of one client must meet several backends")
			Run(t, target)
		})
	}
}

// through puts a PgBouncer of this test's own before the target.
func through(t *testing.T, target *Target) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	require.FileExists(t, program, "install it: apt-get install pgbouncer")
	dir, err := os.MkdirTemp("", "payonce-pgbouncer-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// PgBouncer refuses to run as root, and its own account has to read this
	require.NoError(t, os.Chmod(dir, 0o755))

	port := freePort(t)
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 60
max_client_conn = 400
server_reset_query =
server_round_robin = 1
`, target.Owner.Host, target.Owner.Port, port, filepath.Join(dir, "users"))
	if os.Geteuid() == 0 {
		settings += "user = postgres\n"
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	for path, content := range map[string]string{
		config:                      settings,
		filepath.Join(dir, "users"): fmt.Sprintf("%q %q\n", target.App.User, target.App.Password),
	} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644)) // as above; a test's password
	}

	command := exec.CommandContext(t.Context(), program, config)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, quietTimeout, patience)
	target.App.Host, target.App.Port, target.App.Fallbacks = "127.0.0.1", uint16(port), nil // a port
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// changesBackends: with two server connections in the pool, taken in turn, two
// transactions of one client meet both.
func changesBackends(t *testing.T, target Target) bool {
	t.Helper()
	d := newDesk(t, target)
	first, _ := d.begin(pgx.TxOptions{})
	second, _ := d.begin(pgx.TxOptions{})
	require.NoError(t, first.Rollback(t.Context()))
	require.NoError(t, second.Rollback(t.Context()))
	met := map[int32]bool{}
	for range 2 {
		var pid int32
		require.NoError(t, d.app.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid))
		met[pid] = true
	}
	return len(met) == 2
}
