// Package unguarded is a charge handler without a guard, for comparison: what
// payonce costs is measured against it, and what payonce prevents is shown on it.
//
// It is written as carefully as a handler without idempotency keys can be: the
// order is stored before the provider is called and the result after, both
// durably. But each request is an order of its own, so that a retry charges the
// buyer again.
package unguarded

import (
	"context"
	_ "embed" // the schema
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/psp"
)

const (
	// maxBody bounds a request body, in bytes.
	maxBody = 64 << 10
	// deadline bounds a call to the provider.
	deadline = 30 * time.Second
	// recordTime bounds the database call that stores the result.
	recordTime = 5 * time.Second
)

//go:embed schema.sql
var schema string

const (
	insertOrderSQL = `INSERT INTO unguarded.orders (order_id, reference, provider, amount, currency, status)
VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::text, 'processing') RETURNING created_at`
	// A notification may have been faster.
	updateOrderSQL = `UPDATE unguarded.orders SET status = $2::text, trade_no = $3::text, updated_at = clock_timestamp()
 WHERE order_id = $1::text AND status = 'processing'`
)

// Statements lists the statements of the handler, the one before the provider
// is called and the one after, to be prepared when a
// connection is made.
func Statements() []string { return []string{insertOrderSQL, updateOrderSQL} }

// Install makes the table of orders, in schema unguarded, where it is missing.
// The role payonce_app has to exist.
func Install(ctx context.Context, db interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}) error {
	if _, err := db.Exec(ctx, schema); err != nil {
		return fmt.Errorf("make the table of the unguarded handler: %w", err)
	}
	return nil
}

type handler struct {
	pool      *pgxpool.Pool
	providers map[string]psp.Provider
}

// New makes the handler. It takes the body of POST /v1/charges on any path and
// answers with the same fields.
func New(pool *pgxpool.Pool, providers ...psp.Provider) http.Handler {
	byName := make(map[string]psp.Provider, len(providers))
	for _, provider := range providers {
		byName[provider.Name()] = provider
	}
	return &handler{pool: pool, providers: byName}
}

// charge is the request, and with the fields below Subject the response.
type charge struct {
	// OrderID is in a request what the client calls the order, and in a
	// response the number under which it was charged.
	OrderID       string    `json:"order_id"`
	Provider      string    `json:"provider"`
	Amount        int64     `json:"amount"`
	Currency      string    `json:"currency"`
	Method        string    `json:"method,omitempty"`
	PaymentMethod string    `json:"payment_method,omitempty"`
	Subject       string    `json:"subject,omitempty"`
	ChargeID      string    `json:"charge_id,omitempty"`
	Status        string    `json:"status,omitempty"`
	TradeNo       string    `json:"trade_no,omitempty"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var c charge
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&c); err != nil {
		http.Error(w, "the body is not a charge", http.StatusBadRequest)
		return
	}
	provider, ok := h.providers[c.Provider]
	if !ok {
		http.Error(w, "provider names no provider", http.StatusBadRequest)
		return
	}
	if _, err := money.Exponent(c.Currency); err != nil || c.Amount <= 0 {
		http.Error(w, "amount and currency are not an amount of money", http.StatusBadRequest)
		return
	}
	orderID, err := payments.NewOrderID()
	if err != nil {
		http.Error(w, "no order number could be made", http.StatusInternalServerError)
		return
	}
	request := psp.ChargeRequest{
		OrderID: orderID, Attempt: 1, Money: money.Money{Amount: c.Amount, Currency: c.Currency},
		Subject: c.Subject, Method: c.Method,
	}
	if c.PaymentMethod != "" {
		request.Fields = map[string]string{"payment_method": c.PaymentMethod}
	}
	if err := provider.Validate(request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	err = h.pool.QueryRow(r.Context(), insertOrderSQL, orderID, c.OrderID, c.Provider, c.Amount, c.Currency).
		Scan(&c.CreatedAt)
	if err != nil {
		http.Error(w, "the database is away; nothing was charged", http.StatusServiceUnavailable)
		return
	}
	result := h.charge(r.Context(), provider, request)
	if err := h.record(r.Context(), orderID, result); err != nil {
		http.Error(w, "the database is away; the charge may have been made", http.StatusInternalServerError)
		return
	}
	c.OrderID, c.ChargeID, c.Status, c.TradeNo = orderID, orderID, result.Verdict.String(), result.TradeNo
	answer(w, result.Verdict, c)
}

// charge moves the money; a client that hangs up does not stop it.
func (h *handler) charge(ctx context.Context, provider psp.Provider, request psp.ChargeRequest) psp.Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	defer cancel()
	return provider.Charge(ctx, request)
}

func (h *handler) record(ctx context.Context, orderID string, result psp.Result) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	if _, err := h.pool.Exec(ctx, updateOrderSQL, orderID, result.Verdict.String(), result.TradeNo); err != nil {
		return fmt.Errorf("record the result of order %s: %w", orderID, err)
	}
	return nil
}

func answer(w http.ResponseWriter, verdict psp.Verdict, c charge) {
	status := http.StatusBadGateway
	switch verdict {
	case psp.Succeeded, psp.Pending:
		status = http.StatusCreated
	case psp.Terminal:
		status = http.StatusPaymentRequired
	case psp.InDoubt:
		status = http.StatusGatewayTimeout
	case psp.Transient, psp.NotFound:
	}
	body, err := json.Marshal(c)
	if err != nil {
		http.Error(w, "the answer could not be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
