package freeport_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/freeport"
)

// Nobody answers there, even when servers are started on any port meanwhile.
func TestAddress(t *testing.T) {
	t.Parallel()
	address, err := freeport.Address(t.Context())
	require.NoError(t, err)
	for range 200 {
		other, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = other.Close() })
		require.NotEqual(t, address, other.Addr().String())
	}
	_, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.Error(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	require.NoError(t, listener.Close())
}
