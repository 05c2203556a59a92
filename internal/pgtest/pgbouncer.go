package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// pooler is the number in the name of the socket; the socket is in a folder of its own.
const pooler = 6432

// PgBouncer puts a PgBouncer in transaction mode, of this test's own, before the
// server of config and turns config to it. The settings are lines for
// pgbouncer.ini beyond the ones that make it run.
func PgBouncer(t *testing.T, config *pgx.ConnConfig, settings string) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	require.FileExists(t, program, "install it: apt-get install pgbouncer")
	dir, err := os.MkdirTemp("", "payonce-pgbouncer-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// PgBouncer refuses to run as root, and its own account has to read this and
	// to make its socket here.
	require.NoError(t, os.Chmod(dir, 0o777)) //nolint:gosec // as above

	ini := fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr =
listen_port = %d
unix_socket_dir = %s
auth_type = trust
auth_file = %s
pool_mode = transaction
%s
`, config.Host, config.Port, pooler, dir, filepath.Join(dir, "users"), settings)
	if os.Geteuid() == 0 {
		ini += "user = postgres\n"
	}
	for name, content := range map[string]string{
		"pgbouncer.ini": ini, "users": fmt.Sprintf("%q %q\n", config.User, config.Password),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644)) //nolint:gosec // as above; a test's password
	}
	process := exec.CommandContext(t.Context(), program, filepath.Join(dir, "pgbouncer.ini"))
	require.NoError(t, process.Start())
	t.Cleanup(func() { _ = process.Wait() })

	config.Host, config.Port, config.Fallbacks = dir, pooler, nil
	require.Eventually(t, func() bool {
		conn, err := pgx.ConnectConfig(t.Context(), config.Copy())
		return err == nil && conn.Close(t.Context()) == nil
	}, time.Minute, 50*time.Millisecond, "PgBouncer takes connections")
}
