package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/pspsim"
)

// The server sends its traces where the environment says, and the last of them
// when it stops.
func TestServeIsTraced(t *testing.T) {
	var mu sync.Mutex
	var received strings.Builder
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		received.Write(body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	log := slog.New(slog.DiscardHandler)
	s := settings{
		databaseURL: pgtest.New(t).URL, listen: "127.0.0.1:0", limits: payments.DefaultLimits(), purgeEvery: time.Hour,
		stopWithin: time.Minute,
	}
	stopTracing, err := s.startTracing(t.Context(), log)
	require.NoError(t, err)
	keys, err := pspsim.NewKeys()
	require.NoError(t, err)
	simulator := pspsim.New(pspsim.Options{Keys: keys, Quiet: true})
	defer simulator.Close()
	sim := httptest.NewServer(simulator.Handler())
	defer sim.Close()
	all, err := providers.Simulated(keys, sim.URL, "http://127.0.0.1:9", s.tracing.Client())
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- s.serve(ctx, all, log, func(databaseURL, address string) error {
			ready <- address
			return withConnection(ctx, databaseURL, func(conn *pgx.Conn) error {
				return payments.StoreAPIKey(ctx, conn, "sk_test", "shop", "")
			})
		})
	}()
	var address string
	select {
	case address = <-ready:
	case err := <-ended:
		require.NoError(t, err)
	}
	require.Equal(t, `{"status":"ok"}`, get("http://"+address+"/healthz"))
	require.Contains(t, get("http://"+address+"/metrics"), "payonce_build_info")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/charges",
		strings.NewReader(`{"order_id":"order-1","provider":"alipay","amount":1000,"currency":"CNY","subject":"Tea"}`))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer sk_test")
	request.Header.Set("Idempotency-Key", "pay-1")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusCreated, response.StatusCode)
	stop()
	require.NoError(t, <-ended)
	stopTracing()

	mu.Lock()
	defer mu.Unlock()
	for _, name := range []string{
		"POST /v1/charges", "payments.begin_charge", "alipay charge", "HTTP POST", "payments.finish_charge",
	} {
		require.Contains(t, received.String(), name)
	}
	for _, path := range []string{"/healthz", "/metrics", "sk_test", "pay-1", "Tea"} {
		require.NotContains(t, received.String(), path)
	}
}

// The hash that docs/observability.md has one make is that of the log.
func TestLogIsFoundByKeyHash(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	const line = "printf %s my-first-payment | sha256sum | cut -c 1-12"
	require.Contains(t, string(manual), "\n"+line+"\n")
	made, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output()
	require.NoError(t, err)
	require.Equal(t, httpguard.ShortHash("my-first-payment"), strings.TrimSpace(string(made)))
}
