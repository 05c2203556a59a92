package unguarded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/internal/psp"
)

const (
	insertCartSQL = `INSERT INTO unguarded.carts (reference, sku, quantity)
VALUES ($1::text, $2::text, $3::bigint) ON CONFLICT DO NOTHING`
	// Pays an order and sells what its cart holds.
	payOrderSQL = `WITH paid AS (
    UPDATE unguarded.orders SET status = 'paid', updated_at = clock_timestamp() WHERE order_id = $1::text RETURNING reference
), sold AS (
    UPDATE unguarded.inventory AS i SET on_hand = i.on_hand - c.quantity
      FROM paid AS p JOIN unguarded.carts AS c USING (reference)
     WHERE i.sku = c.sku
)
SELECT reference FROM paid`
	closeOrderSQL = `UPDATE unguarded.orders SET status = 'closed', updated_at = clock_timestamp() WHERE order_id = $1::text`

	// maxNotification bounds the body of a notification, in bytes.
	maxNotification = 256 << 10
	mailTimeout     = 5 * time.Second
)

// Shop is the handler with what a shop has around it: carts, stock, the
// providers' notifications and a mail for each payment. It verifies each
// notification and believes it, in the order in which they arrive.
type Shop struct {
	pool      *pgxpool.Pool
	providers map[string]psp.Provider
	mailURL   string
	log       *slog.Logger
}

// NewShop makes a Shop that posts its mails to mailURL and serves the paths
// that `payonce serve` has.
func NewShop(pool *pgxpool.Pool, mailURL string, log *slog.Logger, providers ...psp.Provider) http.Handler {
	charges := New(pool, providers...).(*handler)
	s := &Shop{pool: pool, providers: charges.providers, mailURL: mailURL, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/orders", s.order)
	mux.Handle("POST /v1/charges", charges)
	mux.HandleFunc("POST /webhooks/{provider}", s.notified)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return mux
}

func (s *Shop) order(w http.ResponseWriter, r *http.Request) {
	var order struct {
		OrderID string `json:"order_id"`
		Items   []struct {
			SKU      string `json:"sku"`
			Quantity int64  `json:"quantity"`
		} `json:"items"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&order); err != nil || order.OrderID == "" {
		http.Error(w, "the body is not an order", http.StatusBadRequest)
		return
	}
	for _, item := range order.Items {
		if _, err := s.pool.Exec(r.Context(), insertCartSQL, order.OrderID, item.SKU, item.Quantity); err != nil {
			http.Error(w, "the order could not be stored", http.StatusServiceUnavailable)
			return
		}
	}
	w.WriteHeader(http.StatusCreated)
}

func (s *Shop) notified(w http.ResponseWriter, r *http.Request) {
	provider, ok := s.providers[r.PathValue("provider")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxNotification))
	if err != nil {
		http.Error(w, "the notification could not be read", http.StatusBadRequest)
		return
	}
	notification, err := provider.ParseNotification(r.Context(), r.Header, body)
	if err != nil {
		http.Error(w, "the notification is not authentic", http.StatusBadRequest)
		return
	}
	if err := s.believe(r.Context(), notification); err != nil {
		s.log.ErrorContext(r.Context(), "notification without effect", "order_id", notification.OrderID, "error", err)
		http.Error(w, "the notification had no effect", http.StatusServiceUnavailable)
		return
	}
	acknowledgement := provider.Acknowledge()
	w.Header().Set("Content-Type", acknowledgement.ContentType)
	w.WriteHeader(acknowledgement.Status)
	_, _ = w.Write(acknowledgement.Body)
}

func (s *Shop) believe(ctx context.Context, n psp.Notification) error {
	switch n.Event {
	case psp.EventPaid, psp.EventFinished:
		var reference string
		err := s.pool.QueryRow(ctx, payOrderSQL, n.OrderID).Scan(&reference)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("there is no order %s", n.OrderID)
		}
		if err != nil {
			return fmt.Errorf("pay order %s: %w", n.OrderID, err)
		}
		return s.mail(ctx, reference)
	case psp.EventFailed, psp.EventClosed:
		if _, err := s.pool.Exec(ctx, closeOrderSQL, n.OrderID); err != nil {
			return fmt.Errorf("close order %s: %w", n.OrderID, err)
		}
	case psp.EventWaiting, psp.EventRefundPartial, psp.EventRefundFull, psp.EventRefundFailed, psp.EventOther:
	}
	return nil
}

func (s *Shop) mail(ctx context.Context, reference string) error {
	ctx, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]string{"order_id": reference, "kind": "order_confirmation"})
	if err != nil {
		return fmt.Errorf("write the mail of order %s: %w", reference, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.mailURL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send the mail of order %s: %w", reference, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("send the mail of order %s: %w", reference, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("send the mail of order %s: the receiver answered %s", reference, response.Status)
	}
	return nil
}
