package payments

import (
	"context"
	"time"

	"github.com/payonce/payonce/internal/postgres"
)

const (
	// callTime bounds one call of the database, so that a connection that went
	// silent leaves time to ask through another.
	callTime = 2 * time.Second
	// settleTime bounds all that is tried to end a charge in the database. It
	// rides out a restart or a failover; what is left of the lease covers it.
	settleTime = 10 * time.Second
	// busyWait bounds the wait for a free connection before anything has begun.
	busyWait = time.Second
	// beginTime bounds all that is tried to begin one.
	beginTime = 5 * time.Second
)

// settle calls until the database answers: an answer that was lost is not
// taken for one. The calls carry the fence, so that repeating one that took
// effect changes nothing.
func (s *Service) settle(ctx context.Context, call func(context.Context) error) error {
	return postgres.Again(ctx, settleTime, callTime, call)
}

// begin calls once, and again only when the call reached the database and its
// answer was lost: the caller may hold the key then. The client hanging up must
// not make that happen.
func (s *Service) begin(ctx context.Context, call func(ctx context.Context, again bool) error) error {
	ctx = context.WithoutCancel(ctx)
	first, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := call(first, false)
	if err == nil || postgres.Unsent(err) || !postgres.Unanswered(err) {
		return err
	}
	return postgres.Again(ctx, beginTime, callTime, func(ctx context.Context) error { return call(ctx, true) })
}
