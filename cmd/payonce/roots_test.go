package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Runs itself again as if the system had no root certificates.
func TestRootsWithoutASystem(t *testing.T) {
	t.Parallel()
	if os.Getenv("SSL_CERT_DIR") == "/nowhere" {
		roots, err := x509.SystemCertPool()
		require.NoError(t, err)
		require.False(t, roots.Equal(x509.NewCertPool()), "no root certificates")
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRootsWithoutASystem$", "-test.count=1")
	again.Env = append(os.Environ(), "SSL_CERT_DIR=/nowhere", "SSL_CERT_FILE=/nowhere/none.pem")
	output, err := again.CombinedOutput()
	require.NoError(t, err, "%s", output)
}
