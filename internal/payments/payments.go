// Package payments charges orders: it begins a charge in SQL, asks a provider,
// and ends the charge in SQL. What a key or an order permits is decided by the
// functions of schema payments; what a provider's answer means, by its adapter.
package payments

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/metrics"
	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/psp"
)

// The outcomes of schema payments, beside those of package guard.
const (
	OrderTaken       guard.Outcome = "order_taken"
	OrderMismatch    guard.Outcome = "order_mismatch"
	OrderPaid        guard.Outcome = "order_paid"
	OrderClosed      guard.Outcome = "order_closed"
	OutOfStock       guard.Outcome = "out_of_stock"
	ChargeInProgress guard.Outcome = "charge_in_progress"

	OrderUnknown         guard.Outcome = "order_unknown"
	OrderNotPaid         guard.Outcome = "order_not_paid"
	RefundExceedsCapture guard.Outcome = "refund_exceeds_capture"
	RefundMismatch       guard.Outcome = "refund_mismatch"
	RefundExists         guard.Outcome = "refund_exists"
	RefundInProgress     guard.Outcome = "refund_in_progress"

	superseded guard.Outcome = "superseded"
)

// How a claimed charge ended when no response was stored.
const (
	// Released: the money surely did not move; the provider could not be used.
	Released guard.Outcome = "released"
	// Rejected: as Released, but the provider answered and would not take the
	// request, which is for the operator to mend.
	Rejected guard.Outcome = "rejected"
	// LeftInDoubt: nobody knows yet whether the money moved.
	LeftInDoubt guard.Outcome = "left_in_doubt"
)

// SQLOutcomes lists every outcome of schema payments that is not the guard's.
func SQLOutcomes() []guard.Outcome {
	return []guard.Outcome{
		OrderTaken, OrderMismatch, OrderPaid, OrderClosed, OutOfStock, ChargeInProgress,
		OrderUnknown, OrderNotPaid, RefundExceedsCapture, RefundMismatch, RefundExists, RefundInProgress,
		superseded,
	}
}

// ErrNotFound is returned for an order or charge that does not exist or
// belongs to another merchant.
var ErrNotFound = errors.New("not found")

// Status is where a charge stands.
type Status string

// The statuses of a charge.
const (
	Processing Status = "processing"
	Pending    Status = "pending"
	Succeeded  Status = "succeeded"
	Failed     Status = "failed"
	InDoubt    Status = "in_doubt"
)

// Charge is one attempt to charge an order, as its merchant may see it.
type Charge struct {
	ID             string
	OrderID        string
	Provider       string
	Method         string
	Money          money.Money
	Attempt        int
	Status         Status
	TradeNo        string
	Next           map[string]string
	FailureCode    string
	FailureMessage string
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Refund is money given back, as its merchant may see it.
type Refund struct {
	ID             string
	OrderID        string
	ChargeID       string
	Provider       string
	Money          money.Money
	Status         Status
	TradeNo        string
	FailureCode    string
	FailureMessage string
	CreatedAt      time.Time
	UpdatedAt      time.Time

	// What a provider needs to find the charge.
	chargeTradeNo string
	chargeAttempt int
	captured      money.Money
}

// Order is an order in its present state.
type Order struct {
	ID           string
	Money        money.Money
	Status       string
	PaidChargeID string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Limits bound how long a charge may take.
type Limits struct {
	// Lease is how long a claim is held: above Deadline.
	Lease time.Duration
	// TTL is the life of a stored response.
	TTL time.Duration
	// EventTTL is how long a notification is known: longer than any provider
	// sends it again.
	EventTTL time.Duration
	// Deadline bounds all that is asked of a provider for one charge. The
	// first call may take two thirds of it; the rest is kept for asking what
	// became of a call that did not answer.
	Deadline time.Duration
}

// quiet is how long a request to move money that got no answer may take effect
// all the same: after it, the provider's "no such trade" counts. Alipay has
// refunds asked about no earlier than ten seconds after they were sent.
func (l Limits) quiet() time.Duration { return 2 * l.Deadline }

// DefaultLimits hold a claim for 60 seconds, give a provider 30 of them, keep a
// response for 24 hours and know a notification for 30 days.
func DefaultLimits() Limits {
	return Limits{Lease: 60 * time.Second, TTL: 24 * time.Hour, EventTTL: 30 * 24 * time.Hour, Deadline: 30 * time.Second}
}

// Service charges orders.
type Service struct {
	// begins and reads fail early when every connection is in use; what has
	// begun may wait for one.
	db, settling *postgres.Bounded
	providers    map[string]psp.Provider
	metrics      *metrics.Metrics
	tracer       trace.Tracer
	limits       Limits
	log          *slog.Logger
	halted       context.Context //nolint:containedctx // the life of the service, not of a call
	halt         context.CancelFunc
}

// New makes a Service. It refuses limits under which a claim could run out
// while its holder still waits for a provider.
func New(pool *pgxpool.Pool, providers []psp.Provider, limits Limits, log *slog.Logger) (*Service, error) {
	if limits.Deadline <= 0 || limits.Deadline+settleTime > limits.Lease {
		return nil, fmt.Errorf("a lease of %s does not cover a provider deadline of %s and %s to settle",
			limits.Lease, limits.Deadline, settleTime)
	}
	measured := metrics.New(pool, log, metrics.Backlog)
	byName := make(map[string]psp.Provider, len(providers))
	for _, provider := range providers {
		byName[provider.Name()] = counted{provider, measured}
	}
	halted, halt := context.WithCancel(context.Background())
	return &Service{
		db: postgres.NewBounded(pool, busyWait), settling: postgres.NewBounded(pool, settleTime),
		providers: byName, metrics: measured, tracer: noop.Tracer{}, limits: limits, log: log, halted: halted, halt: halt,
	}, nil
}

// Trace has each inquiry that nobody requested begin a trace. Requests bring
// their own.
func (s *Service) Trace(tracer trace.Tracer) { s.tracer = tracer }

// Metrics is what the service counts; the server adds its requests.
func (s *Service) Metrics() *metrics.Metrics { return s.metrics }

// Halt ends what is still asked of providers: those charges and refunds are
// left in doubt at once, so that a server can stop without waiting for them.
func (s *Service) Halt() { s.halt() }

// Provider finds a provider by its name in the API.
func (s *Service) Provider(name string) (psp.Provider, bool) {
	provider, ok := s.providers[name]
	return provider, ok
}

// Charge returns a charge of the merchant in its present state.
func (s *Service) Charge(ctx context.Context, merchant, chargeID string) (Charge, error) {
	var view chargeColumns
	err := s.db.QueryRow(ctx, getChargeSQL, merchant, chargeID).Scan(view.targets()...)
	if errors.Is(err, pgx.ErrNoRows) {
		return Charge{}, fmt.Errorf("charge %s: %w", chargeID, ErrNotFound)
	}
	if err != nil {
		return Charge{}, fmt.Errorf("read charge %s: %w", chargeID, err)
	}
	return view.charge(), nil
}

// Order returns an order of the merchant in its present state.
func (s *Service) Order(ctx context.Context, merchant, orderID string) (Order, error) {
	order := Order{}
	var paidBy *string
	err := s.db.QueryRow(ctx, getOrderSQL, merchant, orderID).Scan(&order.ID, &order.Money.Amount,
		&order.Money.Currency, &order.Status, &paidBy, &order.CreatedAt, &order.UpdatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Order{}, fmt.Errorf("order %s: %w", orderID, ErrNotFound)
	}
	if err != nil {
		return Order{}, fmt.Errorf("read order %s: %w", orderID, err)
	}
	if paidBy != nil {
		order.PaidChargeID = *paidBy
	}
	return order, nil
}

// Ready tells whether the database answers.
func (s *Service) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var one int
	if err := s.db.QueryRow(ctx, "SELECT 1").Scan(&one); err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	return nil
}

// newID makes a number that grows with time, which keeps new rows together in
// their index.
func newID(prefix string) (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return prefix + hex.EncodeToString(id[:]), nil
}
