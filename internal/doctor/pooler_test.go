package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// TestPooler connects through a real PgBouncer in transaction mode.
func TestPooler(t *testing.T) {
	t.Parallel()
	direct := pgtest.New(t).Conn(t)
	require.NotContains(t, codes(t, direct), Pooler)

	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	require.FileExists(t, program, "install it: apt-get install pgbouncer")
	dir, err := os.MkdirTemp("", "payonce-pgbouncer-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) // PgBouncer's own account has to read it

	config := direct.Config().Copy()
	port := freePort(t)
	ini := fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
ignore_startup_parameters = search_path
`, config.Host, config.Port, port, filepath.Join(dir, "users"))
	if os.Geteuid() == 0 {
		ini += "user = postgres\n"
	}
	for name, content := range map[string]string{
		"pgbouncer.ini": ini, "users": fmt.Sprintf("%q %q\n", config.User, config.Password),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644)) // as above
	}
	process := exec.CommandContext(t.Context(), program, filepath.Join(dir, "pgbouncer.ini"))
	require.NoError(t, process.Start())
	t.Cleanup(func() { _ = process.Wait() })

	config.Host, config.Port, config.Fallbacks = "127.0.0.1", uint16(port), nil // a port
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	var pooled *pgx.Conn
	require.Eventually(t, func() bool {
		pooled, err = pgx.ConnectConfig(t.Context(), config)
		return err == nil
	}, 20*time.Second, 50*time.Millisecond)
	t.Cleanup(func() { _ = pooled.Close(context.WithoutCancel(t.Context())) })
	found := codes(t, pooled)
	require.Contains(t, found, Pooler)
	require.NotContains(t, found, CheckFailed)
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}
