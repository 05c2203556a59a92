package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stopped is a server that was told to stop while a request was running.
type stopped struct {
	url     string
	answer  chan string
	drained atomic.Bool
	halted  chan struct{}
	ended   chan error
}

// stopWhileRunning serves one request that ends when release is closed or the
// server halts it, and stops the server in the middle.
func stopWhileRunning(t *testing.T, s settings, release chan struct{}) *stopped {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	running := make(chan struct{})
	it := &stopped{
		url: "http://" + listener.Addr().String(), answer: make(chan string, 1), halted: make(chan struct{}),
		ended: make(chan error, 1),
	}
	handler := http.NewServeMux()
	handler.HandleFunc("/quick", func(http.ResponseWriter, *http.Request) {})
	handler.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(running)
		select {
		case <-release:
			_, _ = io.WriteString(w, "finished")
		case <-it.halted:
			_, _ = io.WriteString(w, "in doubt")
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		it.ended <- s.run(ctx, listener, handler, stopping{
			drain: func() { it.drained.Store(true) }, halt: func() { close(it.halted) },
		})
	}()
	go func() { it.answer <- get(it.url + "/slow") }()
	<-running
	stop()
	return it
}

// get is the body, or the error.
func get(url string) string {
	response, err := http.Get(url) //nolint:noctx // ends with the server
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func TestStopFinishesRunningRequests(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	it := stopWhileRunning(t, settings{stopWithin: time.Minute}, release)
	require.Eventually(t, func() bool { return get(it.url+"/quick") != "" }, 10*time.Second, time.Millisecond,
		"no new connections")
	close(release)
	require.Equal(t, "finished", <-it.answer)
	require.NoError(t, <-it.ended)
	require.True(t, it.drained.Load())
}

func TestStopHaltsWhatDoesNotFinish(t *testing.T) {
	t.Parallel()
	it := stopWhileRunning(t, settings{stopWithin: 10 * time.Millisecond}, make(chan struct{}))
	require.Equal(t, "in doubt", <-it.answer)
	require.NoError(t, <-it.ended)
}

func TestStopServesOnWhileItLooksUnready(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	it := stopWhileRunning(t, settings{stopWithin: time.Minute, drainDelay: time.Second}, release)
	require.Eventually(t, it.drained.Load, 10*time.Second, time.Millisecond)
	require.Empty(t, get(it.url+"/quick"), "served while load balancers look away")
	close(release)
	require.Equal(t, "finished", <-it.answer)
	require.NoError(t, <-it.ended)
}
