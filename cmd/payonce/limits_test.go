package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/tlstest"
)

// limited serves with the limits of the API, its times shortened.
func limited(t *testing.T, handler http.HandlerFunc) (address string) {
	t.Helper()
	var s settings
	server := s.newServer(handler)
	for name, limit := range map[string]*time.Duration{
		"header": &server.ReadHeaderTimeout, "request": &server.ReadTimeout, "answer": &server.WriteTimeout, "idle": &server.IdleTimeout,
	} {
		require.Positive(t, *limit, name)
		*limit = 300 * time.Millisecond
	}
	server.WriteTimeout = 0
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

// drip sends a little now and again until the server hangs up.
func drip(conn net.Conn, piece string) {
	for {
		if _, err := io.WriteString(conn, piece); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Whoever sends a header, or a body, a byte at a time is cut off, and so is who
// keeps a connection for nothing.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	bodies := make(chan error, 1)
	address := limited(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, err := io.ReadAll(r.Body)
			bodies <- err
		}
	})
	for name, begins := range map[string]string{
		"header":  "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ",
		"nothing": "",
	} {
		conn := dial(t, address)
		_, err := io.WriteString(conn, begins)
		require.NoError(t, err)
		if begins != "" {
			go drip(conn, "a")
		}
		_, err = io.ReadAll(conn)
		require.False(t, isTimeout(err), "%s: the server waits for ever", name)
	}

	body := dial(t, address)
	_, err := io.WriteString(body, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
	require.NoError(t, err)
	go drip(body, "a")
	require.True(t, isTimeout(<-bodies), "the handler is told at last")

	idle := dial(t, address)
	_, err = io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	reader := bufio.NewReader(idle)
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	_, err = reader.ReadByte()
	require.ErrorIs(t, err, io.EOF, "an idle connection is closed")
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestHugeHeadersAreRefused(t *testing.T) {
	t.Parallel()
	address := limited(t, func(http.ResponseWriter, *http.Request) {})
	for name, header := range map[string]string{
		"one value":   "X-Large: " + strings.Repeat("a", 40<<10),
		"many values": strings.TrimSuffix(strings.Repeat("X-Many: aaaaaaaaaaaaaaaa\r\n", 2000), "\r\n"),
		"a long path": "",
	} {
		path := "/"
		if header == "" {
			path, header = "/"+strings.Repeat("a", 40<<10), "X-Small: a"
		}
		conn := dial(t, address)
		go func() { _, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", path, header) }()
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, name)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, response.StatusCode, name)
	}
}

// The whole server over TLS, asked by a client that verifies it, and by the
// health check of its own machine.
func TestServeOverTLS(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewAuthority(t)
	cert, key := ca.Issue("pay.example.com")
	s := settings{listen: "127.0.0.1:0", stopWithin: time.Minute, purgeEvery: time.Hour, databaseURL: pgtest.New(t).AppURL}
	s.limits.Lease, s.limits.TTL, s.limits.EventTTL, s.limits.Deadline = time.Minute, time.Hour, time.Hour, 30*time.Second
	s.tlsCert, s.tlsKey = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(s.tlsCert, cert, 0o600))
	require.NoError(t, os.WriteFile(s.tlsKey, key, 0o600))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- s.serve(ctx, nil, slog.New(slog.DiscardHandler), func(_, at string) error {
			address <- at
			return nil
		})
	}()
	var at string
	select {
	case at = <-address:
	case err := <-ended:
		t.Fatalf("the server did not start: %v", err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: ca.Client("pay.example.com"), ForceAttemptHTTP2: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+"/v1/orders/1", nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	require.Equal(t, 2, response.ProtoMajor)
	client.CloseIdleConnections()

	text, code := command(t, "", "healthcheck", "https://"+at+"/readyz")
	require.Zero(t, code, text)
	text, code = command(t, "", "healthcheck", "http://"+at+"/readyz")
	require.Equal(t, exitFailed, code, "no plain text beside it: %s", text)
	stop()
	require.NoError(t, <-ended)

	s.tlsKey = ""
	require.ErrorContains(t, s.serve(t.Context(), nil, slog.New(slog.DiscardHandler), nil), "go together")
}
