// Package reconcile ends what nobody has ended: charges and refunds whose
// holder died, whose provider did not answer, or whose notification was lost.
// It asks their providers by our number and never moves money.
package reconcile

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/payments"
)

const (
	// workers bounds the inquiries that one server makes at a time.
	workers = 4
	// pollEvery is how often a worker without work looks for some; it varies by
	// half, so that servers that started together do not look together.
	pollEvery = time.Second
)

// Reconciler asks about what is due. Several may run at once, in one server or
// in many.
type Reconciler struct {
	service       *payments.Service
	respondCharge payments.RespondCharge
	respondRefund payments.RespondRefund
	log           *slog.Logger
}

// New makes a Reconciler that stores the responses which the API would have
// stored.
func New(
	service *payments.Service, charge payments.RespondCharge, refund payments.RespondRefund, log *slog.Logger,
) *Reconciler {
	return &Reconciler{service: service, respondCharge: charge, respondRefund: refund, log: log}
}

// Run reconciles until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { r.work(ctx) })
	}
	running.Wait()
}

func (r *Reconciler) work(ctx context.Context) {
	for ctx.Err() == nil {
		_, err := r.drain(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "reconciliation failed; it goes on in a moment", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery/2 + rand.N(pollEvery)): //nolint:gosec // spreads load, guards nothing
		}
	}
}

// Once asks about everything that is due now and returns what it found, the
// error of the first inquiry that could not be recorded with it.
func (r *Reconciler) Once(ctx context.Context) ([]payments.Inquiry, error) {
	return r.drain(ctx)
}

func (r *Reconciler) drain(ctx context.Context) ([]payments.Inquiry, error) {
	var found []payments.Inquiry
	for _, next := range []func(context.Context) (payments.Inquiry, bool, error){r.charge, r.refund} {
		for ctx.Err() == nil {
			inquiry, due, err := next(ctx)
			if err != nil {
				return found, err
			}
			if !due {
				break
			}
			found = append(found, inquiry)
		}
	}
	return found, ctx.Err() //nolint:wrapcheck // the caller's own context
}

// AskCharge asks about one charge, for a person; false: it is not due, because
// it has ended or because somebody asks about it right now.
func (r *Reconciler) AskCharge(ctx context.Context, chargeID string) (payments.Inquiry, bool, error) {
	return r.inquireCharge(ctx, chargeID)
}

// AskRefund is AskCharge for a refund.
func (r *Reconciler) AskRefund(ctx context.Context, refundID string) (payments.Inquiry, bool, error) {
	return r.inquireRefund(ctx, refundID)
}

func (r *Reconciler) charge(ctx context.Context) (payments.Inquiry, bool, error) {
	return r.inquireCharge(ctx, "")
}

func (r *Reconciler) refund(ctx context.Context) (payments.Inquiry, bool, error) {
	return r.inquireRefund(ctx, "")
}

func (r *Reconciler) inquireCharge(ctx context.Context, chargeID string) (payments.Inquiry, bool, error) {
	inquiry, due, err := r.service.InquireCharge(ctx, chargeID, r.respondCharge)
	if due && err == nil {
		r.log.InfoContext(ctx, "charge reconciled", "order_id", inquiry.Charge.OrderID, "charge_id", inquiry.Charge.ID,
			"provider", inquiry.Charge.Provider, "outcome", ended(inquiry), "status", inquiry.Charge.Status)
	}
	return inquiry, due, err //nolint:wrapcheck // says what failed already
}

func (r *Reconciler) inquireRefund(ctx context.Context, refundID string) (payments.Inquiry, bool, error) {
	inquiry, due, err := r.service.InquireRefund(ctx, refundID, r.respondRefund)
	if due && err == nil {
		r.log.InfoContext(ctx, "refund reconciled", "order_id", inquiry.Refund.OrderID, "refund_id", inquiry.Refund.ID,
			"provider", inquiry.Refund.Provider, "outcome", ended(inquiry), "status", inquiry.Refund.Status)
	}
	return inquiry, due, err //nolint:wrapcheck // says what failed already
}

func ended(inquiry payments.Inquiry) guard.Outcome {
	if inquiry.Outcome == "" {
		return "recorded"
	}
	return inquiry.Outcome
}
