package payments

import (
	"context"
	"fmt"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/metrics"
	"github.com/payonce/payonce/internal/psp"
)

// RefundRequest is a client's request to give money back, validated.
type RefundRequest struct {
	Guard   guard.Request
	OrderID string
	// RefundID is the client's refund number; empty: one is made.
	RefundID string
	// Amount is in minor units of the order's currency.
	Amount int64
	Reason string
}

// RespondRefund writes the response to be stored for a refund that has ended.
type RespondRefund func(Refund) (guard.Response, error)

// BeginRefund claims the key and, when it is claimed, refunds. Errors as Begin.
func (s *Service) BeginRefund(ctx context.Context, request RefundRequest, respond RespondRefund) (Result, error) {
	newRefundID, err := newID("rf_")
	if err != nil {
		return Result{}, err
	}
	var row refundRow
	err = s.begin(ctx, func(ctx context.Context, again bool) error {
		row = refundRow{}
		return s.db.QueryRow(ctx, beginRefundSQL, request.Guard.Scope, request.Guard.Key, request.Guard.Path,
			request.Guard.Hash, request.OrderID, request.RefundID, newRefundID, request.Amount, s.limits.Lease,
			s.limits.TTL, again, s.limits.quiet()).Scan(row.targets()...)
	})
	if err != nil {
		return Result{}, fmt.Errorf("begin a refund of order %s: %w", request.OrderID, err)
	}
	begun := row.result()
	s.claimed(metrics.Refund, row.guard.Result())
	if begun.Outcome != guard.Claimed {
		return begun, nil
	}
	provider, ok := s.providers[begun.Refund.Provider]
	if !ok {
		return Result{}, fmt.Errorf("refund %s: provider %s is not configured any more", begun.Refund.ID, begun.Refund.Provider)
	}
	a := attempt{Service: s, quiet: row.quiet != nil && *row.quiet, movement: &refunding{
		Service: s, provider: provider, reason: request.Reason, refund: begun.Refund, respond: respond,
		holder: guard.Holder{Scope: request.Guard.Scope, Key: request.Guard.Key, Fence: row.guard.Result().Fence},
	}}
	result, err := a.run(ctx, row.guard.Result().Recovered)
	s.metrics.Ended(metrics.Refund, endOf(result.Outcome, a.status()))
	return result, err
}

// refunding is a claimed refund on its way.
type refunding struct {
	*Service
	provider psp.Provider
	reason   string
	holder   guard.Holder
	refund   Refund
	respond  RespondRefund
}

func (r *refunding) status() Status { return r.refund.Status }

func (r *refunding) decided() bool { return r.refund.Status != Processing }

func (r *refunding) request() psp.RefundRequest {
	return psp.RefundRequest{
		Trade: psp.Trade{
			OrderID: r.refund.OrderID, Attempt: r.refund.chargeAttempt, Money: r.refund.captured,
			TradeNo: r.refund.chargeTradeNo,
		},
		RefundID: r.refund.ID, Money: r.refund.Money, Reason: r.reason,
	}
}

func (r *refunding) move(ctx context.Context) psp.Result {
	return r.logged(ctx, "refund", r.provider.Refund(ctx, r.request()))
}

func (r *refunding) ask(ctx context.Context) psp.Result {
	return r.logged(ctx, "query_refund", r.provider.QueryRefund(ctx, r.request()))
}

func (r *refunding) logged(ctx context.Context, operation string, result psp.Result) psp.Result {
	r.log.InfoContext(ctx, "provider answered", "operation", operation, "provider", r.refund.Provider,
		"order_id", r.refund.OrderID, "refund_id", r.refund.ID,
		"verdict", result.Verdict.String(), "code", result.Code, "error", result.Err)
	return result
}

func (r *refunding) decide(status Status, result psp.Result) {
	r.refund.Status, r.refund.TradeNo = status, result.TradeNo
	if status == Failed {
		r.refund.FailureCode, r.refund.FailureMessage = result.Code, result.Message
	}
}

func (r *refunding) finish(ctx context.Context) (Result, error) {
	response, err := r.respond(r.refund)
	if err != nil {
		return Result{}, err
	}
	headers, err := guard.EncodeHeaders(response.Headers)
	if err != nil {
		return Result{}, err
	}
	var row refundRow
	err = r.settle(ctx, func(ctx context.Context) error {
		row = refundRow{}
		return r.settling.QueryRow(ctx, finishRefundSQL, r.holder.Scope, r.holder.Key, r.holder.Fence, r.refund.ID,
			string(r.refund.Status), r.refund.TradeNo, r.refund.FailureCode, r.refund.FailureMessage,
			response.Status, headers, response.Body).Scan(row.targets()...)
	})
	if err != nil {
		return Result{}, fmt.Errorf("finish refund %s: %w", r.refund.ID, err)
	}
	done := row.result()
	if done.Outcome == superseded {
		r.refund = done.Refund
	}
	return done, nil
}

func (r *refunding) release(ctx context.Context, result psp.Result) (bool, error) {
	return r.end(ctx, releaseRefundSQL, result)
}

func (r *refunding) abandon(ctx context.Context, result psp.Result, answered bool) (bool, error) {
	return r.end(ctx, abandonRefundSQL, result, answered)
}

func (r *refunding) end(ctx context.Context, sql string, result psp.Result, more ...any) (bool, error) {
	args := append([]any{r.holder.Scope, r.holder.Key, r.holder.Fence, r.refund.ID, result.Code, result.Message}, more...)
	var held bool
	err := r.settle(ctx, func(ctx context.Context) error {
		return r.settling.QueryRow(ctx, sql, args...).Scan(&held)
	})
	if err != nil {
		return false, fmt.Errorf("end refund %s without a verdict: %w", r.refund.ID, err)
	}
	return held, nil
}

func (r *refunding) heldBy() guard.Holder { return r.holder }

func (r *refunding) result(outcome guard.Outcome) Result {
	return Result{Outcome: outcome, Refund: r.refund}
}
