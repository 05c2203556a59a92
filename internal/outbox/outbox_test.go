package outbox_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/outbox"
	"github.com/payonce/payonce/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Two servers deliver side by side to a receiver that fails now and then: each
// effect is taken, under one id.
func TestDeliversEachEffect(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	owner := db.Conn(t)
	const effects = 30
	_, err := owner.Exec(t.Context(), `SELECT payments.write_outbox('order-' OPERATOR(pg_catalog.||) n::pg_catalog.text,
	       'order_confirmation', '', '{"amount": 1}') FROM pg_catalog.generate_series(1, 30) AS n`)
	require.NoError(t, err)

	var mu sync.Mutex
	taken, failures := map[string]int{}, 3
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got struct {
			ID      int64  `json:"id"`
			OrderID string `json:"order_id"`
			Kind    string `json:"kind"`
		}
		mu.Lock()
		defer mu.Unlock()
		if json.NewDecoder(r.Body).Decode(&got) != nil || got.Kind != "order_confirmation" || r.Header.Get("Idempotency-Key") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if failures > 0 {
			failures--
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		taken[got.OrderID]++
	}))
	t.Cleanup(receiver.Close)

	ctx, cancel := context.WithCancel(t.Context())
	var servers sync.WaitGroup
	for range 2 {
		pool, err := pgxpool.New(ctx, db.AppURL)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		servers.Go(func() { outbox.Deliver(ctx, pool, receiver.URL, slog.New(slog.DiscardHandler)) })
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(taken) == effects-3
	}, 10*time.Second, 5*time.Millisecond)
	// What failed waits for its time, which is now.
	_, err = owner.Exec(t.Context(), "UPDATE payments.outbox SET due_at = pg_catalog.now() WHERE delivered_at IS NULL")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(taken) == effects
	}, 10*time.Second, 5*time.Millisecond)
	cancel()
	servers.Wait()
	for orderID, times := range taken {
		require.Equal(t, 1, times, orderID)
	}
	var attempts int
	require.NoError(t, owner.QueryRow(t.Context(), "SELECT pg_catalog.sum(attempts) FROM payments.outbox").Scan(&attempts))
	require.Equal(t, effects+3, attempts)
}
