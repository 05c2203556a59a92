package outbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
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

// A receiver that points elsewhere, as one that was taken over would point into
// our network, is not followed, and its address stands in no log: it may hold a
// token.
func TestRedirectOfTheReceiverIsNotFollowed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	owner := db.Conn(t)
	var inside, asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	t.Cleanup(elsewhere.Close)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		if r.URL.Query().Get("token") == "hush-token" && password == "hush-password" {
			asked.Add(1)
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(receiver.Close)
	pool, err := pgxpool.New(t.Context(), db.AppURL)
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	for _, address := range []string{receiver.URL, "http://127.0.0.1:1"} {
		_, err := owner.Exec(t.Context(), `
			SELECT payments.write_outbox($1, 'order_confirmation', '', '{"amount": 1}')`, address)
		require.NoError(t, err)
		_, err = owner.Exec(t.Context(), `UPDATE payments.outbox SET due_at = pg_catalog.now()`)
		require.NoError(t, err)
		log := &lines{}
		ctx, cancel := context.WithCancel(t.Context())
		var delivering sync.WaitGroup
		delivering.Go(func() {
			outbox.Deliver(ctx, pool, strings.Replace(address, "//", "//user:hush-password@", 1)+"/effects?token=hush-token",
				slog.New(slog.NewJSONHandler(log, nil)))
		})
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "not delivered") }, 20*time.Second, 5*time.Millisecond)
		cancel()
		delivering.Wait()
		require.NotContains(t, log.String(), "hush")
	}
	require.Positive(t, asked.Load(), "the receiver itself gets its token and password")
	require.Zero(t, inside.Load())
}

func TestReceiversThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"file:///etc/passwd", "gopher://127.0.0.1", "shop.example.com", "http://", "http://a b/?token=hush"} {
		err := outbox.CheckURL(address)
		require.ErrorContains(t, err, "is not one such as", address)
		require.NotContains(t, err.Error(), "hush")
	}
	require.NoError(t, outbox.CheckURL("https://user:password@shop.example.com/effects?token=t"))
}

// lines is a log that tests read.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
