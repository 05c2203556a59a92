package payments

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/payonce/payonce/internal/guard"
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

// ChargeResult is how a request to charge ended.
type ChargeResult struct {
	Outcome guard.Outcome
	// Response is set for outcomes Completed and Replay.
	Response   guard.Response
	RetryAfter time.Duration
	// Charge is set once there is one, and for OrderPaid.
	Charge Charge
	// Code is the provider's code behind Released, Rejected and LeftInDoubt.
	Code string
}

// Respond writes the response to be stored for a charge that has ended:
// pending, succeeded or failed.
type Respond func(Charge) (guard.Response, error)

// attempt is a claimed charge on its way.
type attempt struct {
	*Service
	provider psp.Provider
	request  ChargeRequest
	holder   guard.Holder
	charge   Charge
	respond  Respond
	settled  bool
}

// Begin claims the key and, when it is claimed, charges the order. The
// client's hang-up (ctx) no longer counts once the key is claimed: the work
// then goes on to its end, under a deadline below the lease.
//
// An error means that the database did not answer: nothing was charged, or
// what was charged is in doubt and its key is still held.
func (s *Service) Begin(ctx context.Context, request ChargeRequest, respond Respond) (ChargeResult, error) {
	chargeID, err := newChargeID()
	if err != nil {
		return ChargeResult{}, err
	}
	var row resultTargets
	err = s.pool.QueryRow(ctx, beginSQL, request.Guard.Scope, request.Guard.Key, request.Guard.Path,
		request.Guard.Hash, chargeID, request.OrderID, request.Provider, request.Method, request.Money.Amount,
		request.Money.Currency, s.limits.Lease, s.limits.TTL).Scan(row.targets()...)
	if err != nil {
		return ChargeResult{}, fmt.Errorf("begin a charge on order %s: %w", request.OrderID, err)
	}
	begun := row.guard.Result()
	charge := row.charge.charge()
	if begun.Outcome != guard.Claimed {
		return ChargeResult{
			Outcome: begun.Outcome, Response: begun.Response, RetryAfter: begun.RetryAfter, Charge: charge,
		}, nil
	}

	a := &attempt{
		Service: s, provider: s.providers[charge.Provider], request: request, charge: charge, respond: respond,
		holder: guard.Holder{Scope: request.Guard.Scope, Key: request.Guard.Key, Fence: begun.Fence},
	}
	ctx = context.WithoutCancel(ctx)
	// A panic on the way must not leave the next request waiting for the
	// lease, nor free the key: the money may have moved.
	defer func() {
		if !a.settled {
			_, _ = a.abandon(ctx, psp.Result{Code: "interrupted"})
		}
	}()
	if charge.Status != Processing {
		return a.finish(ctx)
	}
	return a.settle(ctx, a.charged(ctx, begun.Recovered))
}

// charged asks the provider to charge, or, where an earlier holder may have
// done that, what became of it. The answer is in doubt only when asking what
// became of it failed too.
func (a *attempt) charged(ctx context.Context, recovered bool) psp.Result {
	ctx, cancel := context.WithTimeout(ctx, a.limits.Deadline)
	defer cancel()
	if recovered {
		result := a.ask(ctx)
		if result.Verdict != psp.NotFound {
			return result
		}
	}
	callCtx, cancelCall := context.WithTimeout(ctx, a.limits.Deadline*2/3)
	defer cancelCall()
	result := a.verified(a.provider.Charge(callCtx, psp.ChargeRequest{
		OrderID: a.charge.OrderID, Attempt: a.charge.Attempt, Money: a.charge.Money,
		Subject: a.request.Subject, Method: a.charge.Method, Fields: a.request.Fields,
	}))
	a.logResult(ctx, "charge", result)
	if result.Verdict != psp.InDoubt {
		return result
	}
	answer := a.ask(ctx)
	if answer.Verdict == psp.InDoubt && answer.Code == "" {
		answer.Code = result.Code
	}
	return answer
}

// ask finds out by order number what became of the charge. Only a plain
// answer counts; an inquiry that failed leaves it in doubt.
func (a *attempt) ask(ctx context.Context) psp.Result {
	result := a.verified(a.provider.Query(ctx, psp.Trade{
		OrderID: a.charge.OrderID, Attempt: a.charge.Attempt, Money: a.charge.Money, TradeNo: a.charge.TradeNo,
	}))
	if result.Verdict == psp.Transient {
		result.Verdict = psp.InDoubt
	}
	a.logResult(ctx, "query", result)
	return result
}

// verified refuses to believe a success over another amount than the order's.
func (a *attempt) verified(result psp.Result) psp.Result {
	if result.Verdict == psp.Succeeded && result.Paid != (money.Money{}) && result.Paid != a.charge.Money {
		result.Verdict = psp.InDoubt
		result.Code = "amount_mismatch"
		result.Err = fmt.Errorf("provider reports %d %s paid, the order is over %d %s",
			result.Paid.Amount, result.Paid.Currency, a.charge.Money.Amount, a.charge.Money.Currency)
	}
	return result
}

// settle records the provider's verdict.
func (a *attempt) settle(ctx context.Context, result psp.Result) (ChargeResult, error) {
	a.charge.TradeNo = result.TradeNo
	a.charge.Next = result.Next
	switch result.Verdict {
	case psp.Succeeded:
		a.charge.Status = Succeeded
	case psp.Pending:
		a.charge.Status = Pending
	case psp.Terminal:
		a.charge.Status = Failed
		a.charge.FailureCode, a.charge.FailureMessage = result.Code, result.Message
	case psp.Transient, psp.NotFound:
		return a.release(ctx, result)
	case psp.InDoubt:
		return a.abandon(ctx, result)
	default:
		return a.abandon(ctx, result)
	}
	return a.finish(ctx)
}

// finish stores the charge's end and the response under the key. A charge
// that a notification has moved on meanwhile is answered as it then is.
func (a *attempt) finish(ctx context.Context) (ChargeResult, error) {
	for {
		response, err := a.respond(a.charge)
		if err != nil {
			return ChargeResult{}, err
		}
		done, err := a.finishOnce(ctx, response)
		if err != nil {
			return ChargeResult{}, err
		}
		if done.Outcome != superseded {
			a.settled = true
			return done, nil
		}
		a.charge = done.Charge
	}
}

func (a *attempt) finishOnce(ctx context.Context, response guard.Response) (ChargeResult, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	headers, err := guard.EncodeHeaders(response.Headers)
	if err != nil {
		return ChargeResult{}, err
	}
	next, err := json.Marshal(orNoNext(a.charge.Next))
	if err != nil {
		return ChargeResult{}, fmt.Errorf("encode the next action of charge %s: %w", a.charge.ID, err)
	}
	var row resultTargets
	err = a.pool.QueryRow(ctx, finishSQL, a.holder.Scope, a.holder.Key, a.holder.Fence, a.charge.ID,
		string(a.charge.Status), a.charge.TradeNo, string(next), a.charge.FailureCode, a.charge.FailureMessage,
		response.Status, headers, response.Body).Scan(row.targets()...)
	if err != nil {
		return ChargeResult{}, fmt.Errorf("finish charge %s: %w", a.charge.ID, err)
	}
	done := row.guard.Result()
	return ChargeResult{
		Outcome: done.Outcome, Response: done.Response, RetryAfter: done.RetryAfter, Charge: row.charge.charge(),
	}, nil
}

// release frees the key of a charge whose money surely did not move.
func (a *attempt) release(ctx context.Context, result psp.Result) (ChargeResult, error) {
	outcome := Released
	if result.Verdict == psp.Transient && result.Err == nil {
		outcome = Rejected
	}
	return a.end(ctx, releaseSQL, outcome, result)
}

// abandon leaves the charge in doubt: the next request starts by asking.
func (a *attempt) abandon(ctx context.Context, result psp.Result) (ChargeResult, error) {
	return a.end(ctx, abandonSQL, LeftInDoubt, result)
}

func (a *attempt) end(ctx context.Context, sql string, outcome guard.Outcome, result psp.Result) (ChargeResult, error) {
	a.settled = true
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	var held bool
	err := a.pool.QueryRow(ctx, sql, a.holder.Scope, a.holder.Key, a.holder.Fence, a.charge.ID, result.Code,
		result.Message).Scan(&held)
	if err != nil {
		return ChargeResult{}, fmt.Errorf("end charge %s as %s: %w", a.charge.ID, outcome, err)
	}
	if !held {
		// Another holder took over: its answer counts, and the retry gets it.
		return ChargeResult{Outcome: guard.Conflict, RetryAfter: time.Second}, nil
	}
	return ChargeResult{Outcome: outcome, RetryAfter: time.Second, Charge: a.charge, Code: result.Code}, nil
}

func (a *attempt) logResult(ctx context.Context, operation string, result psp.Result) {
	a.log.InfoContext(ctx, "provider answered", "operation", operation, "provider", a.charge.Provider,
		"order_id", a.charge.OrderID, "charge_id", a.charge.ID, "attempt", a.charge.Attempt,
		"verdict", result.Verdict.String(), "code", result.Code, "error", result.Err)
}

func orNoNext(next map[string]string) map[string]string {
	if next == nil {
		return map[string]string{}
	}
	return next
}
