package lab_test

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/bench/internal/lab"
)

// echo answers with what it gets, until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

// fastest is the shortest of some round trips: what other work on the machine
// adds is not the wire's.
func fastest(t *testing.T, address string) time.Duration {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	times := make([]time.Duration, 0, 30)
	for range cap(times) {
		start := time.Now()
		_, err := conn.Write([]byte("ping"))
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 4))
		require.NoError(t, err)
		times = append(times, time.Since(start))
	}
	return slices.Min(times)
}

func TestAWireAddsItsRoundTripAndLosesNothing(t *testing.T) {
	t.Parallel()
	server := echo(t)
	const added = 20 * time.Millisecond
	wire, err := lab.StartWire(t.Context(), server, added)
	require.NoError(t, err)
	t.Cleanup(func() { _ = wire.Close() })
	// Clocks of two cores of a virtual machine may differ a little.
	require.GreaterOrEqual(t, fastest(t, wire.Address()), added*3/4)

	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i * 31)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", wire.Address())
	require.NoError(t, err)
	go func() {
		_, _ = conn.Write(sent)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, sent, got)
}
