package payments

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/metrics"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/tracing"
)

// counted is a provider whose calls are counted and traced.
type counted struct {
	psp.Provider

	metrics *metrics.Metrics
}

func (c counted) count(ctx context.Context, operation string, call func(context.Context) psp.Result) psp.Result {
	start := time.Now()
	ctx, span := tracing.Start(ctx, c.Name(), operation)
	defer span.End()
	result := call(ctx)
	if span.IsRecording() {
		span.SetAttributes(tracing.Verdict.String(result.Verdict.String()), tracing.Code.String(result.Code))
		if result.Err != nil {
			span.SetStatus(codes.Error, "")
		}
	}
	c.metrics.ProviderCall(c.Name(), operation, result.Verdict.String(), time.Since(start))
	return result
}

// Charge implements psp.Provider.
func (c counted) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	return c.count(ctx, "charge", func(ctx context.Context) psp.Result { return c.Provider.Charge(ctx, request) })
}

// Query implements psp.Provider.
func (c counted) Query(ctx context.Context, trade psp.Trade) psp.Result {
	return c.count(ctx, "query", func(ctx context.Context) psp.Result { return c.Provider.Query(ctx, trade) })
}

// Refund implements psp.Provider.
func (c counted) Refund(ctx context.Context, request psp.RefundRequest) psp.Result {
	return c.count(ctx, "refund", func(ctx context.Context) psp.Result { return c.Provider.Refund(ctx, request) })
}

// QueryRefund implements psp.Provider.
func (c counted) QueryRefund(ctx context.Context, request psp.RefundRequest) psp.Result {
	return c.count(ctx, "query_refund", func(ctx context.Context) psp.Result { return c.Provider.QueryRefund(ctx, request) })
}

// claimed counts what begin_charge or begin_refund decided.
func (s *Service) claimed(work metrics.Work, claim guard.Result) {
	s.metrics.Claim(work, string(claim.Outcome))
	if claim.Recovered {
		s.metrics.TakeOver(work, metrics.Request)
	}
}

// endOf names how claimed work ended, for the metrics: where it stands when its
// response is stored, else what became of its key.
func endOf(outcome guard.Outcome, status Status) string {
	switch outcome {
	case guard.Completed, guard.Replay, "":
		return string(status)
	case guard.Conflict:
		return "taken_over"
	default:
		return string(outcome)
	}
}
