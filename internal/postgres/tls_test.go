package postgres_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/cluster"
	"github.com/payonce/payonce/internal/postgres"
)

// certificate writes a self-signed certificate for loopback addresses and its
// key, which PostgreSQL's account can read.
func certificate(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	if os.Geteuid() == 0 {
		account, err := user.Lookup("postgres")
		require.NoError(t, err)
		uid, err := strconv.Atoi(account.Uid)
		require.NoError(t, err)
		require.NoError(t, os.Chown(keyFile, uid, -1))
	}
	return certFile, keyFile
}

// The URL's sslmode and sslrootcert are kept to, by the pool and by one
// connection: whoever shows another certificate gets nothing.
func TestPostgreSQLOverTLS(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "payonce-tls-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	certFile, keyFile := certificate(t, dir, "server")
	strangers, _ := certificate(t, dir, "stranger")
	server, err := cluster.Start(t.Context(), cluster.Options{DataDir: dir, Settings: map[string]string{
		"ssl": "on", "ssl_cert_file": certFile, "ssl_key_file": keyFile,
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })

	with := func(root string) string {
		u, err := url.Parse(server.URL())
		require.NoError(t, err)
		query := u.Query()
		query.Set("sslmode", "verify-full")
		query.Set("sslrootcert", root)
		u.RawQuery = query.Encode()
		return u.String()
	}
	const secured = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
	var yes bool
	pool, err := postgres.Open(t.Context(), with(certFile), secured)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, pool.QueryRow(t.Context(), secured).Scan(&yes))
	require.True(t, yes)
	conn, err := postgres.Connect(t.Context(), with(certFile))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	require.NoError(t, conn.QueryRow(t.Context(), secured).Scan(&yes))
	require.True(t, yes)

	_, err = postgres.Connect(t.Context(), with(strangers))
	require.ErrorContains(t, err, "certificate")
	if pool, err := postgres.Open(t.Context(), with(strangers), secured); err == nil {
		defer pool.Close()
		require.ErrorContains(t, pool.QueryRow(t.Context(), secured).Scan(&yes), "certificate")
	}
}
