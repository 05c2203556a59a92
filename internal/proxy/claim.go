package proxy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/payonce/payonce/internal/guard"
)

const (
	// callWithin bounds one call of the guard.
	callWithin = 5 * time.Second
	// endWithin bounds how long the end of a claim is tried, a database's
	// failover included.
	endWithin = 15 * time.Second
	// leasePart is the part of the lease after which it is extended.
	leasePart = 3
	// ownSQLStates is the class of the errors that the guard's functions raise
	// for arguments that they never take.
	ownSQLStates = "IK"
)

func (x *exchange) holder() guard.Holder {
	return guard.Holder{Scope: x.request.Scope, Key: x.request.Key, Fence: x.fence.Load()}
}

// insist calls the guard, again for a while when the database does not answer.
func insist[T any](x *exchange, call func(ctx context.Context) (T, error)) (T, error) {
	ctx := context.WithoutCancel(x.ctx)
	return backoff.Retry(ctx, func() (T, error) {
		bounded, cancel := context.WithTimeout(ctx, callWithin)
		defer cancel()
		result, err := call(bounded)
		if strings.HasPrefix(guard.SQLState(err), ownSQLStates) {
			return result, backoff.Permanent(err)
		}
		return result, err
	}, backoff.WithBackOff(backoff.NewExponentialBackOff()), backoff.WithMaxElapsedTime(endWithin))
}

// errHeld means that another holder looks at the key.
var errHeld = errors.New("another request holds the key")

// complete stores the answer. A holder whose lease ran out may find that a
// retry took the key over: that one only looked and left it in doubt, or is at
// work at an idempotent upstream. The answer is known now, so the key is
// claimed once more where nobody holds it, and completed.
func (x *exchange) complete(answer guard.Response) (guard.Result, error) {
	var result guard.Result
	_, err := insist(x, func(ctx context.Context) (struct{}, error) {
		var err error
		result, err = guard.Complete(ctx, x.proxy.db, x.holder(), answer)
		if err != nil || (result.Outcome != guard.Conflict && result.Outcome != guard.Gone) {
			return struct{}{}, err
		}
		claim, err := guard.Claim(ctx, x.proxy.db, x.request, x.rule.Lease, x.rule.KeyTTL)
		if err != nil {
			return struct{}{}, err
		}
		result = claim
		if claim.Outcome == guard.Conflict && !x.rule.UpstreamIdempotent {
			return struct{}{}, errHeld
		}
		if claim.Outcome == guard.Claimed {
			x.fence.Store(claim.Fence)
			result, err = guard.Complete(ctx, x.proxy.db, x.holder(), answer)
		}
		return struct{}{}, err
	})
	if errors.Is(err, errHeld) {
		return result, nil
	}
	return result, err
}

// release frees the key: the work was surely not done.
func (x *exchange) release() {
	x.info.Outcome = "released"
	x.finish("release", func(ctx context.Context) (bool, error) {
		return guard.Release(ctx, x.proxy.db, x.holder())
	})
}

// abandon leaves the work in doubt.
func (x *exchange) abandon() {
	x.info.Outcome = "in_doubt"
	x.finish("abandon", func(ctx context.Context) (bool, error) {
		return guard.Abandon(ctx, x.proxy.db, x.holder())
	})
}

func (x *exchange) finish(what string, call func(ctx context.Context) (bool, error)) {
	x.ended = true
	if _, err := insist(x, call); err != nil {
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
	_, err := guard.Extend(bounded, x.proxy.db, x.holder(), x.rule.Lease)
	if err != nil && ctx.Err() == nil {
		x.log(slog.LevelWarn, "the lease could not be extended", err)
	}
}
