package payments

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/metrics"
	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
)

// ChargeRequest is a client's request to charge an order, validated.
type ChargeRequest struct {
	Guard    guard.Request
	Provider string
	OrderID  string
	Money    money.Money
	Subject  string
	Method   string
	Fields   map[string]string
}

// RespondCharge writes the response to be stored for a charge that has ended:
// pending, succeeded or failed.
type RespondCharge func(Charge) (guard.Response, error)

// Begin claims the key and, when it is claimed, charges the order.
//
// An error means that the database did not answer: nothing was charged, or
// what was charged is in doubt and its key is still held.
func (s *Service) Begin(ctx context.Context, request ChargeRequest, respond RespondCharge) (Result, error) {
	chargeID, err := newID("ch_")
	if err != nil {
		return Result{}, err
	}
	var row chargeRow
	err = s.begin(ctx, func(ctx context.Context, again bool) error {
		row = chargeRow{}
		return s.db.QueryRow(ctx, beginChargeSQL, request.Guard.Scope, request.Guard.Key, request.Guard.Path,
			request.Guard.Hash, chargeID, request.OrderID, request.Provider, request.Method, request.Money.Amount,
			request.Money.Currency, s.limits.Lease, s.limits.TTL, again, s.limits.quiet()).Scan(row.targets()...)
	})
	if err != nil {
		return Result{}, fmt.Errorf("begin a charge on order %s: %w", request.OrderID, err)
	}
	begun := row.result()
	s.claimed(metrics.Charge, row.guard.Result())
	if begun.Outcome != guard.Claimed {
		return begun, nil
	}
	provider, ok := s.providers[begun.Charge.Provider]
	if !ok {
		return Result{}, fmt.Errorf("charge %s: provider %s is not configured any more", begun.Charge.ID, begun.Charge.Provider)
	}
	a := attempt{Service: s, quiet: row.quiet != nil && *row.quiet, movement: &charging{
		Service: s, provider: provider, request: request, charge: begun.Charge, respond: respond,
		holder: guard.Holder{Scope: request.Guard.Scope, Key: request.Guard.Key, Fence: row.guard.Result().Fence},
	}}
	result, err := a.run(ctx, row.guard.Result().Recovered)
	s.metrics.Ended(metrics.Charge, endOf(result.Outcome, a.status()))
	return result, err
}

// charging is a claimed charge on its way.
type charging struct {
	*Service
	provider psp.Provider
	request  ChargeRequest
	holder   guard.Holder
	charge   Charge
	respond  RespondCharge
}

func (c *charging) status() Status { return c.charge.Status }

func (c *charging) decided() bool { return c.charge.Status != Processing }

func (c *charging) move(ctx context.Context) psp.Result {
	return c.checked(ctx, "charge", c.provider.Charge(ctx, psp.ChargeRequest{
		OrderID: c.charge.OrderID, Attempt: c.charge.Attempt, Money: c.charge.Money,
		Subject: c.request.Subject, Method: c.charge.Method, Fields: c.request.Fields,
	}))
}

func (c *charging) ask(ctx context.Context) psp.Result {
	return c.checked(ctx, "query", c.provider.Query(ctx, psp.Trade{
		OrderID: c.charge.OrderID, Attempt: c.charge.Attempt, Money: c.charge.Money, TradeNo: c.charge.TradeNo,
		StartedAt: c.charge.CreatedAt,
	}))
}

// checked refuses to believe a success over another amount than the order's.
func (c *charging) checked(ctx context.Context, operation string, result psp.Result) psp.Result {
	if result.Verdict == psp.Succeeded && result.Paid != (money.Money{}) && result.Paid != c.charge.Money {
		result.Verdict = psp.InDoubt
		result.Code = "amount_mismatch"
		result.Err = fmt.Errorf("provider reports %d %s paid, the order is over %d %s",
			result.Paid.Amount, result.Paid.Currency, c.charge.Money.Amount, c.charge.Money.Currency)
	}
	c.log.InfoContext(ctx, "provider answered", "operation", operation, "provider", c.charge.Provider,
		"order_id", c.charge.OrderID, "charge_id", c.charge.ID, "attempt", c.charge.Attempt,
		"verdict", result.Verdict.String(), "code", result.Code, "error", result.Err)
	return result
}

func (c *charging) decide(status Status, result psp.Result) {
	c.charge.Status, c.charge.TradeNo, c.charge.Next = status, result.TradeNo, result.Next
	if status == Failed {
		c.charge.FailureCode, c.charge.FailureMessage = result.Code, result.Message
	}
}

func (c *charging) finish(ctx context.Context) (Result, error) {
	response, err := c.respond(c.charge)
	if err != nil {
		return Result{}, err
	}
	headers, err := guard.EncodeHeaders(response.Headers)
	if err != nil {
		return Result{}, err
	}
	next, err := json.Marshal(orNoNext(c.charge.Next))
	if err != nil {
		return Result{}, fmt.Errorf("encode the next action of charge %s: %w", c.charge.ID, err)
	}
	var row chargeRow
	err = c.settle(ctx, func(ctx context.Context) error {
		row = chargeRow{}
		return c.settling.QueryRow(ctx, finishChargeSQL, c.holder.Scope, c.holder.Key, c.holder.Fence, c.charge.ID,
			string(c.charge.Status), c.charge.TradeNo, string(next), c.charge.FailureCode, c.charge.FailureMessage,
			response.Status, headers, response.Body).Scan(row.targets()...)
	})
	if err != nil {
		return Result{}, fmt.Errorf("finish charge %s: %w", c.charge.ID, err)
	}
	done := row.result()
	if done.Outcome == superseded {
		c.charge = done.Charge
	}
	return done, nil
}

func (c *charging) release(ctx context.Context, result psp.Result) (bool, error) {
	return c.end(ctx, releaseChargeSQL, result)
}

func (c *charging) abandon(ctx context.Context, result psp.Result, answered bool) (bool, error) {
	return c.end(ctx, abandonChargeSQL, result, answered)
}

func (c *charging) end(ctx context.Context, sql string, result psp.Result, more ...any) (bool, error) {
	args := append([]any{c.holder.Scope, c.holder.Key, c.holder.Fence, c.charge.ID, result.Code, result.Message}, more...)
	var held bool
	err := c.settle(ctx, func(ctx context.Context) error {
		return c.settling.QueryRow(ctx, sql, args...).Scan(&held)
	})
	if err != nil {
		return false, fmt.Errorf("end charge %s without a verdict: %w", c.charge.ID, err)
	}
	return held, nil
}

func (c *charging) heldBy() guard.Holder { return c.holder }

func (c *charging) result(outcome guard.Outcome) Result {
	return Result{Outcome: outcome, Charge: c.charge}
}

func orNoNext(next map[string]string) map[string]string {
	if next == nil {
		return map[string]string{}
	}
	return next
}
