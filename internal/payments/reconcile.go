package payments

import (
	"context"
	"fmt"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/metrics"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/tracing"
)

// Inquiry is what a reconciler found out about one charge or refund.
type Inquiry struct {
	// Charge or Refund is what was asked about, as it then is.
	Charge Charge
	Refund Refund
	// Outcome is Completed or Replay when its key has its response, Released
	// when the money surely did not move, LeftInDoubt when the provider did not
	// tell, and empty when there was no key to complete.
	Outcome guard.Outcome
}

// InquireCharge takes the charge that is longest due, or the one with chargeID
// if that is not empty, and asks its provider what became of it; false: none is
// due. Only asking moves no money, so several reconcilers may be at work beside
// clients' retries and notifications.
func (s *Service) InquireCharge(ctx context.Context, chargeID string, respond RespondCharge) (Inquiry, bool, error) {
	var due dueColumns
	var columns chargeColumns
	err := s.db.QueryRow(ctx, claimDueChargeSQL, s.names(), s.limits.Lease, s.limits.TTL, s.limits.quiet(), chargeID).
		Scan(append(due.targets(), columns.targets()...)...)
	if err != nil {
		return Inquiry{}, false, fmt.Errorf("take a due charge: %w", err)
	}
	if due.merchant == nil {
		return Inquiry{}, false, nil
	}
	charge := columns.charge()
	asked := &charging{
		Service: s, provider: s.providers[charge.Provider], holder: due.holder(), charge: charge, respond: respond,
	}
	inquiry, err := s.inquire(ctx, metrics.Charge, asked, due, recordChargeSQL, charge.ID)
	inquiry.Charge = asked.charge
	return inquiry, true, err
}

// InquireRefund is InquireCharge for refunds.
func (s *Service) InquireRefund(ctx context.Context, refundID string, respond RespondRefund) (Inquiry, bool, error) {
	var due dueColumns
	var columns refundColumns
	err := s.db.QueryRow(ctx, claimDueRefundSQL, s.names(), s.limits.Lease, s.limits.TTL, s.limits.quiet(), refundID).
		Scan(append(due.targets(), columns.targets()...)...)
	if err != nil {
		return Inquiry{}, false, fmt.Errorf("take a due refund: %w", err)
	}
	if due.merchant == nil {
		return Inquiry{}, false, nil
	}
	refund := columns.refund()
	asked := &refunding{
		Service: s, provider: s.providers[refund.Provider], holder: due.holder(), refund: refund, respond: respond,
	}
	inquiry, err := s.inquire(ctx, metrics.Refund, asked, due, recordRefundSQL, refund.ID)
	inquiry.Refund = asked.refund
	return inquiry, true, err
}

// inquire ends what can be ended and counts what it found. With a key that is
// an attempt that only asks.
func (s *Service) inquire(
	ctx context.Context, work metrics.Work, asked movement, due dueColumns, recordSQL, id string,
) (inquiry Inquiry, err error) {
	ctx, span := s.tracer.Start(ctx, "reconcile "+string(work))
	defer func() {
		if err == nil {
			found := endOf(inquiry.Outcome, asked.status())
			s.metrics.Found(work, found)
			span.SetAttributes(tracing.Outcome.String(found))
		}
		span.End()
	}()
	if due.fence != nil {
		s.metrics.TakeOver(work, metrics.Reconciler)
		a := attempt{Service: s, movement: asked, onlyAsk: true, quiet: due.isQuiet()}
		result, err := a.run(ctx, true)
		return Inquiry{Outcome: result.Outcome}, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.limits.Deadline)
	defer cancel()
	result := believed(asked.ask(bounded), due.isQuiet())
	var status Status
	err = s.settling.QueryRow(ctx, recordSQL, *due.merchant, id, inquiryStatus(result.Verdict), result.TradeNo,
		result.Code, result.Message).Scan(&status)
	if err != nil {
		return Inquiry{}, fmt.Errorf("record what became of %s: %w", id, err)
	}
	asked.decide(status, result)
	return Inquiry{}, nil
}

// inquiryStatus is a verdict in the words of payments.record_charge_inquiry.
func inquiryStatus(verdict psp.Verdict) string {
	switch verdict {
	case psp.Succeeded:
		return string(Succeeded)
	case psp.Pending:
		return string(Pending)
	case psp.Terminal:
		return string(Failed)
	case psp.NotFound:
		return "unsent"
	case psp.Transient, psp.InDoubt:
		return string(InDoubt)
	default:
		return string(InDoubt)
	}
}

// names lists the providers that this service can ask.
func (s *Service) names() []string {
	names := make([]string, 0, len(s.providers))
	for name := range s.providers {
		names = append(names, name)
	}
	return names
}

// dueColumns are the scan targets of the first columns of payments.due_charge
// and payments.due_refund; all are null when nothing is due.
type dueColumns struct {
	merchant, key *string
	fence         *int64
	quiet         *bool
}

func (d *dueColumns) targets() []any { return []any{&d.merchant, &d.key, &d.fence, &d.quiet} }

func (d *dueColumns) isQuiet() bool { return d.quiet != nil && *d.quiet }

func (d *dueColumns) holder() guard.Holder {
	holder := guard.Holder{Scope: *d.merchant, Key: *d.key}
	if d.fence != nil {
		holder.Fence = *d.fence
	}
	return holder
}
