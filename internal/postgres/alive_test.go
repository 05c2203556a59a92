package postgres

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func pair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	client, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	server, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	return client, server
}

func TestAlive(t *testing.T) {
	t.Parallel()
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		client, _ := pair(t)
		require.True(t, alive(client))
	})
	t.Run("closed by the server", func(t *testing.T) {
		t.Parallel()
		client, server := pair(t)
		require.NoError(t, server.Close())
		require.Eventually(t, func() bool { return !alive(client) }, 10*time.Second, time.Millisecond)
	})
	t.Run("told something that nobody asked for", func(t *testing.T) {
		t.Parallel()
		client, server := pair(t)
		_, err := server.Write([]byte("N"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return !alive(client) }, 10*time.Second, time.Millisecond)
	})
	t.Run("closed here", func(t *testing.T) {
		t.Parallel()
		client, _ := pair(t)
		require.NoError(t, client.Close())
		require.False(t, alive(client))
	})
	// pgx reads in the background while it writes much, and may leave that read
	// waiting: the peek must not wait for it.
	t.Run("while a read is waiting", func(t *testing.T) {
		t.Parallel()
		client, _ := pair(t)
		reading := make(chan struct{})
		go func() {
			close(reading)
			_, _ = client.Read(make([]byte, 1))
		}()
		<-reading
		told := make(chan bool, 100)
		go func() {
			for range cap(told) {
				told <- alive(client)
			}
		}()
		for range cap(told) {
			select {
			case healthy := <-told:
				require.True(t, healthy)
			case <-time.After(10 * time.Second):
				t.Fatal("the peek waits for the read")
			}
		}
	})
}
