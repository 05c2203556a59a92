package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpapi"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/psp"
)

// Verdict is what a person found out at the provider.
type Verdict string

// The verdicts on a charge or refund.
const (
	// Moved means that the money moved.
	Moved Verdict = "moved"
	// Refused means that the provider refused for good.
	Refused Verdict = "refused"
)

// Errors of a resolution that does not fit its key. The key is in doubt as before.
var (
	ErrNeedsVerdict  = errors.New("the key started a charge or refund: say --moved or --refused, the response follows from it")
	ErrNeedsResponse = errors.New("the key started no charge or refund: give the response with --status and --body-file")
)

// Resolution says how the work of a key ended: Verdict for a charge or refund,
// Response for anything else.
type Resolution struct {
	Verdict  Verdict
	TradeNo  string
	Code     string
	Response guard.Response
}

// Ended is what became of a key.
type Ended struct {
	// Outcome is taken when it was ended; else held, completed or gone, and
	// nothing changed.
	Outcome guard.Outcome `json:"outcome"`
	// OrderID and ID name the charge or refund that was ended with it, Status
	// what it then is.
	OrderID string          `json:"order_id,omitempty"`
	ID      string          `json:"id,omitempty"`
	Status  payments.Status `json:"status,omitempty"`
}

// Release frees an open key whose work surely had no effect; its charge or
// refund is recorded as unsent.
func (d *Desk) Release(ctx context.Context, o guard.Operation) (Ended, error) {
	o.Action = "release"
	service, taken, err := d.take(ctx, o)
	if err != nil || taken.Outcome != guard.Taken {
		return Ended{Outcome: taken.Outcome}, err
	}
	if movementOf(taken) == "" {
		_, err := guard.Release(ctx, d.pool, taken.Holder)
		return Ended{Outcome: taken.Outcome}, err //nolint:wrapcheck // says what failed already
	}
	return d.end(ctx, service, taken, psp.Result{Verdict: psp.NotFound, Code: "operator"})
}

// Resolve ends an open key with a response.
func (d *Desk) Resolve(ctx context.Context, o guard.Operation, r Resolution) (Ended, error) {
	o.Action = "resolve"
	service, taken, err := d.take(ctx, o)
	if err != nil || taken.Outcome != guard.Taken {
		return Ended{Outcome: taken.Outcome}, err
	}
	hasMovement := movementOf(taken) != ""
	switch {
	case hasMovement && r.Verdict == "":
		return d.giveBack(ctx, service, taken, ErrNeedsVerdict)
	case !hasMovement && r.Verdict != "":
		return d.giveBack(ctx, service, taken, ErrNeedsResponse)
	case !hasMovement:
		if _, err := guard.Complete(ctx, d.pool, taken.Holder, r.Response); err != nil {
			return d.giveBack(ctx, service, taken, err)
		}
		return Ended{Outcome: taken.Outcome}, nil
	}
	verdict := psp.Result{Verdict: psp.Succeeded, TradeNo: r.TradeNo}
	if r.Verdict == Refused {
		verdict = psp.Result{Verdict: psp.Terminal, TradeNo: r.TradeNo, Code: r.Code, Message: "recorded by an operator"}
	}
	return d.end(ctx, service, taken, verdict)
}

func movementOf(taken payments.ByHand) string { return taken.Charge.ID + taken.Refund.ID }

func (d *Desk) take(ctx context.Context, o guard.Operation) (*payments.Service, payments.ByHand, error) {
	if !d.payments {
		outcome, holder, err := guard.TakeByHand(ctx, d.pool, o)
		return nil, payments.ByHand{Outcome: outcome, Holder: holder}, explained("end the key", err)
	}
	service, err := payments.New(d.pool, nil, payments.DefaultLimits(), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, payments.ByHand{}, fmt.Errorf("end the key: %w", err)
	}
	taken, err := service.TakeByHand(ctx, o)
	return service, taken, explained("end the key", err)
}

func (d *Desk) end(
	ctx context.Context, service *payments.Service, taken payments.ByHand, verdict psp.Result,
) (Ended, error) {
	if _, err := service.EndByHand(ctx, taken, verdict, httpapi.StoredCharge, httpapi.StoredRefund); err != nil {
		return Ended{}, fmt.Errorf("end the work of the key: %w", err)
	}
	ended := Ended{Outcome: taken.Outcome, OrderID: taken.Charge.OrderID + taken.Refund.OrderID, ID: movementOf(taken)}
	order, err := d.Order(ctx, ended.OrderID)
	if err != nil {
		return ended, err
	}
	for _, m := range append(order.Charges, order.Refunds...) {
		if m.ID() == ended.ID {
			ended.Status = payments.Status(m.Status)
		}
	}
	return ended, nil
}

// giveBack leaves a taken key, and what it started, in doubt again.
func (d *Desk) giveBack(ctx context.Context, service *payments.Service, taken payments.ByHand, because error) (Ended, error) {
	if movementOf(taken) != "" {
		_, err := service.EndByHand(ctx, taken, psp.Result{Verdict: psp.InDoubt, Code: "operator"}, httpapi.StoredCharge, httpapi.StoredRefund)
		return Ended{}, errors.Join(because, err)
	}
	_, err := guard.Abandon(context.WithoutCancel(ctx), d.pool, taken.Holder)
	return Ended{}, errors.Join(because, err)
}
