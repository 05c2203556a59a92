package payments

import (
	"context"
	"sync"
	"time"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/psp"
)

// Result is how a request to move money ended.
type Result struct {
	Outcome guard.Outcome
	// Response is set for outcomes Completed and Replay.
	Response   guard.Response
	RetryAfter time.Duration
	// Charge is set by Begin once there is one, and for OrderPaid.
	Charge Charge
	// Refund is set by BeginRefund once there is one, and for RefundExists.
	Refund Refund
	// Code is the provider's code behind Released, Rejected and LeftInDoubt.
	Code string
	// Recovered tells that an earlier holder's work was taken over and ended
	// without moving money again.
	Recovered bool
}

// movement is one charge or refund whose key is claimed.
type movement interface {
	// status is where the movement stands.
	status() Status
	// decided tells that the movement has its end already, which only has to
	// be answered.
	decided() bool
	// move asks the provider to move the money.
	move(context.Context) psp.Result
	// ask finds out by our number what became of it.
	ask(context.Context) psp.Result
	// decide takes over the provider's verdict: pending, succeeded or failed.
	decide(Status, psp.Result)
	// finish stores the end and the response. Outcome superseded: a
	// notification was faster; the movement then holds what it said.
	finish(context.Context) (Result, error)
	// release frees the key, abandon leaves the movement in doubt; false when
	// another holder has taken over. answered: the provider did answer the
	// request to move the money, so that nothing of it is on its way.
	release(context.Context, psp.Result) (bool, error)
	abandon(ctx context.Context, result psp.Result, answered bool) (bool, error)
	// heldBy is the claim under which the movement is made.
	heldBy() guard.Holder
	// result is the Result of a movement without a stored response.
	result(guard.Outcome) Result
}

// attempt takes a claimed movement to its end.
type attempt struct {
	*Service
	movement
	// onlyAsk: this is a reconciler's, which moves no money.
	onlyAsk bool
	// quiet: no earlier request to move this money can be on its way still, so
	// that the provider's "no such trade" counts.
	quiet bool
	// answered: the provider answered this attempt's request to move the money.
	answered bool
	settled  bool
	// sent: this attempt asked the provider to move the money.
	sent bool
}

// run goes on when the client hangs up: once the key is claimed the work is
// done to its end, under a deadline below the lease.
func (a *attempt) run(ctx context.Context, recovered bool) (Result, error) {
	ctx = context.WithoutCancel(ctx)
	defer a.keepLease(ctx)()
	// A panic on the way must not leave the next request waiting for the
	// lease, nor free the key: the money may have moved.
	defer func() {
		if !a.settled {
			_, _ = a.leaveInDoubt(ctx, psp.Result{Code: "interrupted"})
		}
	}()
	if a.decided() {
		result, err := a.store(ctx)
		result.Recovered = recovered
		return result, err
	}
	result, err := a.settle(ctx, a.moved(ctx, recovered))
	result.Recovered = recovered && !a.sent
	return result, err
}

// moved asks the provider to move the money, or, where an earlier holder may
// have done that, what became of it. The answer is in doubt only when asking
// what became of it failed too, or when the provider does not know a trade that
// an unanswered request may still make.
func (a *attempt) moved(ctx context.Context, recovered bool) psp.Result {
	ctx, cancel := context.WithTimeout(ctx, a.limits.Deadline)
	defer cancel()
	defer context.AfterFunc(a.halted, cancel)()
	if recovered {
		if result := a.asked(ctx, a.quiet); a.onlyAsk || result.Verdict != psp.NotFound {
			return result
		}
	}
	callCtx, cancelCall := context.WithTimeout(ctx, a.limits.Deadline*2/3)
	defer cancelCall()
	a.sent = true
	result := a.move(callCtx)
	if result.Verdict != psp.InDoubt {
		return result
	}
	a.answered = result.Code != ""
	answer := a.asked(ctx, a.answered)
	if answer.Verdict == psp.InDoubt && answer.Code == "" {
		answer.Code = result.Code
	}
	return answer
}

// asked takes only a plain answer; an inquiry that failed leaves it in doubt.
func (a *attempt) asked(ctx context.Context, quiet bool) psp.Result {
	result := believed(a.ask(ctx), quiet)
	if result.Verdict == psp.Transient {
		result.Verdict = psp.InDoubt
	}
	return result
}

// believed takes "no such trade" for in doubt while a request may be on its way.
func believed(result psp.Result, quiet bool) psp.Result {
	if result.Verdict == psp.NotFound && !quiet && !result.Barred {
		result.Verdict = psp.InDoubt
	}
	return result
}

// settle records the provider's verdict.
func (a *attempt) settle(ctx context.Context, result psp.Result) (Result, error) {
	switch result.Verdict {
	case psp.Succeeded:
		a.decide(Succeeded, result)
	case psp.Pending:
		a.decide(Pending, result)
	case psp.Terminal:
		a.decide(Failed, result)
	case psp.Transient, psp.NotFound:
		return a.setFree(ctx, result)
	case psp.InDoubt:
		return a.leaveInDoubt(ctx, result)
	default:
		return a.leaveInDoubt(ctx, result)
	}
	return a.store(ctx)
}

// store ends the movement with a stored response. One that a notification has
// moved on meanwhile is answered as it then is.
func (a *attempt) store(ctx context.Context) (Result, error) {
	for {
		done, err := a.finish(ctx)
		if err != nil {
			return a.unrecorded(ctx, err), nil
		}
		if done.Outcome != superseded {
			a.settled = true
			return done, nil
		}
	}
}

func (a *attempt) setFree(ctx context.Context, result psp.Result) (Result, error) {
	outcome := Released
	if result.Verdict == psp.Transient && result.Err == nil {
		outcome = Rejected
	}
	return a.end(ctx, a.release, outcome, result)
}

func (a *attempt) leaveInDoubt(ctx context.Context, result psp.Result) (Result, error) {
	return a.end(ctx, func(ctx context.Context, result psp.Result) (bool, error) {
		return a.abandon(ctx, result, a.answered)
	}, LeftInDoubt, result)
}

func (a *attempt) end(
	ctx context.Context, how func(context.Context, psp.Result) (bool, error), outcome guard.Outcome, result psp.Result,
) (Result, error) {
	a.settled = true
	held, err := how(ctx, result)
	if err != nil {
		return a.unrecorded(ctx, err), nil
	}
	if !held {
		// Another holder took over: its answer counts, and the retry gets it.
		return Result{Outcome: guard.Conflict, RetryAfter: time.Second}, nil
	}
	ended := a.result(outcome)
	ended.RetryAfter, ended.Code = time.Second, result.Code
	return ended, nil
}

// unrecorded is the answer when the database could not be told how a movement
// ended: it is in doubt until the lease is over, and then asked about.
func (a *attempt) unrecorded(ctx context.Context, err error) Result {
	a.settled = true
	a.log.ErrorContext(ctx, "the end could not be recorded; it is asked about when the lease is over", "error", err)
	result := a.result(LeftInDoubt)
	result.RetryAfter = time.Second
	return result
}

// keepLease extends the lease while the attempt lasts, so that work which takes
// longer than expected is not taken over; the returned function ends that.
func (a *attempt) keepLease(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(a.limits.Lease / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			bounded, cancelCall := context.WithTimeout(ctx, callTime)
			held, err := guard.Extend(bounded, a.settling, a.heldBy(), a.limits.Lease)
			cancelCall()
			if err == nil && !held {
				return // ended, or taken over: the fence keeps this holder out
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}
