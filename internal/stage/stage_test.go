package stage_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/stage"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var simulatorKeys = sync.OnceValues(pspsim.NewKeys)

func newSimulator(t *testing.T) *stage.Simulator {
	t.Helper()
	keys, err := simulatorKeys()
	require.NoError(t, err)
	simulator, err := stage.NewSimulator(t.Context(), keys, "http://127.0.0.1:1")
	require.NoError(t, err)
	t.Cleanup(simulator.Close)
	return simulator
}

// Every provider is on the stage.
func TestEnvironmentConfiguresEveryProvider(t *testing.T) {
	t.Parallel()
	given := map[string]string{}
	for _, variable := range newSimulator(t).Environment("http://127.0.0.1:1") {
		name, value, ok := strings.Cut(variable, "=")
		require.True(t, ok)
		given[name] = value
	}
	all, err := providers.Configured(func(name string) string { return given[name] }, nil)
	require.NoError(t, err)
	keys, err := simulatorKeys()
	require.NoError(t, err)
	registered, err := providers.Simulated(keys, "http://127.0.0.1:1", "http://127.0.0.1:1", nil)
	require.NoError(t, err)
	require.Len(t, all, len(registered))
}

func newServer(t *testing.T, args ...string) *stage.Server {
	t.Helper()
	dir := t.TempDir()
	binary, err := stage.Build(t.Context(), dir)
	require.NoError(t, err)
	server, err := stage.NewServer(t.Context(), stage.ServerOptions{
		Binary: binary, Args: args, Dir: dir, Name: "server",
		Environment: append(newSimulator(t).Environment("http://127.0.0.1:1"), "PAYONCE_DATABASE_URL="+pgtest.New(t).AppURL),
	})
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	return server
}

// answers tells whether the server is ready, asked once.
func answers(t *testing.T, server *stage.Server, within time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL()+"/readyz", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	require.NoError(t, response.Body.Close())
	return response.StatusCode == http.StatusOK
}

func TestServerIsPausedKilledAndStopped(t *testing.T) {
	t.Parallel()
	server := newServer(t, "serve")
	require.NoError(t, server.Start(t.Context()))
	require.NoError(t, server.Start(t.Context()), "it runs already")
	require.True(t, answers(t, server, time.Minute))
	server.Pause()
	require.False(t, answers(t, server, 200*time.Millisecond))
	server.Continue()
	require.True(t, answers(t, server, time.Minute))
	server.Pause()
	server.Kill()
	require.False(t, answers(t, server, time.Minute))
	require.NoError(t, server.Start(t.Context()), "on the same address")
	require.True(t, answers(t, server, time.Minute))
	server.Pause()
	require.NoError(t, server.Stop(), "a paused one goes on to stop")
	require.False(t, answers(t, server, time.Minute))
	require.NoError(t, server.Stop())
}

func TestServerThatEndsAtOnceSaysWhy(t *testing.T) {
	t.Parallel()
	server := newServer(t, "serve", "--lease", "1s")
	err := server.Start(t.Context())
	require.ErrorContains(t, err, "a lease of 1s does not cover")
}

func TestMailboxDropsASecondDelivery(t *testing.T) {
	t.Parallel()
	mailbox, err := stage.NewMailbox(t.Context())
	require.NoError(t, err)
	t.Cleanup(mailbox.Close)
	deliver := func(id string) int {
		body := strings.NewReader(`{"order_id":"o1","kind":"order_confirmation"}`)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, mailbox.URL(), body)
		require.NoError(t, err)
		if id != "" {
			request.Header.Set("Idempotency-Key", id)
		}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	mailbox.LoseAnswers(1)
	require.Equal(t, http.StatusBadGateway, deliver("1"))
	require.Equal(t, http.StatusNoContent, deliver("1"))
	require.Equal(t, http.StatusNoContent, deliver("2"))
	require.Len(t, mailbox.Mails(), 2)
	deliver("")
	deliver("")
	require.Len(t, mailbox.Mails(), 4, "without an id nobody can tell")
	require.Equal(t, 5, mailbox.Deliveries())
}
