package doctor

import (
	"context"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/cluster"
	"github.com/payonce/payonce/internal/tlstest"
)

// from makes loopback look like another place.
type from struct {
	net.Conn
	address net.Addr
}

func (c from) RemoteAddr() net.Addr { return c.address }

// A real server with TLS and without, reached from near and, as the address
// says, from afar.
func TestTransport(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "payonce-doctor-tls-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	authority := tlstest.NewAuthority(t)
	chain, key := authority.Issue("db.example")
	certFile, keyFile, rootFile := filepath.Join(dir, "crt"), filepath.Join(dir, "key"), filepath.Join(dir, "root")
	require.NoError(t, os.WriteFile(certFile, chain, 0o644))
	require.NoError(t, os.WriteFile(rootFile, authority.Root(), 0o644))
	require.NoError(t, os.WriteFile(keyFile, key, 0o600))
	if os.Geteuid() == 0 {
		account, err := user.Lookup("postgres")
		require.NoError(t, err)
		uid, err := strconv.Atoi(account.Uid)
		require.NoError(t, err)
		require.NoError(t, os.Chown(keyFile, uid, -1))
	}
	server, err := cluster.Start(t.Context(), cluster.Options{DataDir: filepath.Join(dir, "data"), Settings: map[string]string{
		"ssl": "on", "ssl_cert_file": certFile, "ssl_key_file": keyFile,
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })

	for _, c := range []struct {
		peer, parameters string
		want             []Code
	}{
		{"127.0.0.1", "sslmode=disable", nil},
		{"127.0.0.1", "sslmode=require", nil},
		{"10.1.2.3", "sslmode=disable", []Code{ConnectionUnverified}},
		{"192.0.2.1", "sslmode=disable", []Code{ConnectionPlain}},
		{"2001:db8::1", "sslmode=disable", []Code{ConnectionPlain}},
		{"192.0.2.1", "sslmode=require", []Code{ConnectionUnverified}},
		{"192.0.2.1", "sslmode=prefer", []Code{ConnectionUnverified}},
		{"192.0.2.1", "sslmode=require&sslrootcert=" + rootFile, nil},
		{"192.0.2.1", "sslmode=verify-ca&sslrootcert=" + rootFile, nil},
		{"192.0.2.1", "sslmode=verify-full&sslrootcert=" + rootFile, nil},
	} {
		config, err := pgx.ParseConfig("postgres://postgres@db.example:5432/postgres?" + c.parameters)
		require.NoError(t, err)
		reach, err := pgx.ParseConfig(server.URL())
		require.NoError(t, err)
		config.User, config.Password, config.Database = reach.User, reach.Password, reach.Database
		config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{c.peer}, nil }
		config.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(reach.Host, strconv.Itoa(int(reach.Port))))
			return from{conn, &net.TCPAddr{IP: net.ParseIP(c.peer), Port: 5432}}, err
		}
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err, c.parameters)
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
		found, err := transport(t.Context(), &patient{conn: conn})
		require.NoError(t, err)
		var got []Code
		for _, finding := range found {
			got = append(got, finding.Code)
			require.Contains(t, finding.What, "db.example")
		}
		require.Equal(t, c.want, got, "%s, %s", c.peer, c.parameters)
	}
}
