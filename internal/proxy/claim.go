package proxy

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/postgres"
)

const (
	// callWithin bounds one call of the guard, so that a connection that went
	// silent leaves time to ask through another.
	callWithin = 2 * time.Second
	// endWithin bounds how long the end of a claim is tried, a database's
	// failover included.
	endWithin = 10 * time.Second
	// leasePart is the part of the lease after which it is extended.
	leasePart = 3
)

func (x *exchange) holder() guard.Holder {
	return guard.Holder{Scope: x.request.Scope, Key: x.request.Key, Fence: x.fence.Load()}
}

// end ends the claim with call, again for a while when the database does not
// answer.
func (x *exchange) end(call func(ctx context.Context) error) error {
	return postgres.Again(context.WithoutCancel(x.ctx), endWithin, callWithin, call)
}

// errHeld means that another holder looks at the key.
var errHeld = errors.New("another request holds the key")

// complete stores the answer. A holder whose lease ran out may find that a
// retry took the key over: that one only looked and left it in doubt, or is at
// work at an idempotent upstream. The answer is known now, so the key is
// claimed once more where nobody holds it, and completed.
func (x *exchange) complete(answer guard.Response) (guard.Result, error) {
	var result guard.Result
	err := x.end(func(ctx context.Context) error {
		var err error
		result, err = guard.Complete(ctx, x.proxy.ends, x.holder(), answer)
		if err != nil || (result.Outcome != guard.Conflict && result.Outcome != guard.Gone) {
			return err
		}
		result, err = guard.Claim(ctx, x.proxy.ends, x.request, x.rule.Lease, x.rule.KeyTTL)
		if err != nil {
			return err
		}
		if result.Outcome == guard.Conflict && !x.rule.UpstreamIdempotent {
			return errHeld
		}
		if result.Outcome == guard.Claimed {
			x.fence.Store(result.Fence)
			result, err = guard.Complete(ctx, x.proxy.ends, x.holder(), answer)
		}
		return err
	})
	if errors.Is(err, errHeld) {
		return result, nil
	}
	return result, err
}

// release frees the key: this request surely did no work. Where an earlier one
// may have, the key stays in doubt: freed, it would be claimed as if new, and
// the upstream no longer told to check first.
func (x *exchange) release() {
	if x.claim.Recovered {
		x.abandon()
		return
	}
	x.info.Outcome = "released"
	x.finish("release", guard.Release)
}

// abandon leaves the work in doubt.
func (x *exchange) abandon() {
	x.info.Outcome = "in_doubt"
	x.finish("abandon", guard.Abandon)
}

func (x *exchange) finish(what string, how func(context.Context, guard.DB, guard.Holder) (bool, error)) {
	x.ended = true
	err := x.end(func(ctx context.Context) error {
		_, err := how(ctx, x.proxy.ends, x.holder())
		return err
	})
	if err != nil {
		x.log(slog.LevelError, "could not "+what+" the key; it stays in doubt", err)
	}
}

// leave abandons the key when the exchange ended in no other way, by a panic.
func (x *exchange) leave() {
	if !x.ended {
		x.abandon()
	}
}

// keepLease extends the lease for as long as the exchange runs; the function
// that it returns ends that.
func (x *exchange) keepLease() func() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(x.ctx))
	go func() {
		ticker := time.NewTicker(x.rule.Lease / leasePart)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				x.extend(ctx)
			}
		}
	}()
	return cancel
}

// extend makes the lease longer. When that fails the work goes on, since it
// cannot be taken back; the fence decides in the end.
func (x *exchange) extend(ctx context.Context) {
	// Not cancelled by the end of the exchange: that would cost a connection.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), callWithin)
	defer cancel()
	_, err := guard.Extend(bounded, x.proxy.ends, x.holder(), x.rule.Lease)
	if err != nil && ctx.Err() == nil {
		x.log(slog.LevelWarn, "the lease could not be extended", err)
	}
}
