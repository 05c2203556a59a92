package payments

import (
	"context"
	"errors"
	"fmt"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/psp"
)

const operatorTakeSQL = `SELECT r.outcome, r.fence, ` + chargeColumnList + `, ` + refundColumnList + `
  FROM payments.operator_take(p_scope => $1::text, p_key => $2::text, p_action => $3::text, p_actor => $4::text,
       p_reason => $5::text, p_force => $6::boolean) AS r`

// errNothingToEnd is an error of the caller.
var errNothingToEnd = errors.New("the key that was taken has neither charge nor refund")

// ByHand is a key that a person has taken over, with the charge or refund that
// it started and that nobody has ended.
type ByHand struct {
	// Outcome is taken, held, completed or gone; sql/guard/operator_take.sql
	// says what each means. The rest is set for taken only.
	Outcome guard.Outcome
	Holder  guard.Holder
	Charge  Charge
	Refund  Refund
}

// TakeByHand takes an open key over for a person.
func (s *Service) TakeByHand(ctx context.Context, o guard.Operation) (ByHand, error) {
	var outcome string
	var fence *int64
	var charge chargeColumns
	var refund refundColumns
	targets := append([]any{&outcome, &fence}, charge.targets()...)
	err := s.db.QueryRow(ctx, operatorTakeSQL, o.Scope, o.Key, o.Action, o.Actor, o.Reason, o.Force).
		Scan(append(targets, refund.targets()...)...)
	if err != nil {
		return ByHand{}, fmt.Errorf("take the key over: %w", err)
	}
	taken := ByHand{Outcome: guard.Outcome(outcome), Charge: charge.charge(), Refund: refund.refund()}
	if fence != nil {
		taken.Holder = guard.Holder{Scope: o.Scope, Key: o.Key, Fence: *fence}
	}
	return taken, nil
}

// EndByHand ends the charge or refund of a taken key as a person found it to be
// at the provider: Succeeded, Terminal (refused for good) or NotFound (the money
// surely did not move, the key is free again). What a notification has decided
// already stays as it is and gets its response.
func (s *Service) EndByHand(
	ctx context.Context, taken ByHand, verdict psp.Result, charge RespondCharge, refund RespondRefund,
) (Result, error) {
	var work movement
	switch {
	case taken.Charge.ID != "":
		work = &charging{Service: s, holder: taken.Holder, charge: taken.Charge, respond: charge}
	case taken.Refund.ID != "":
		work = &refunding{Service: s, holder: taken.Holder, refund: taken.Refund, respond: refund}
	default:
		return Result{}, errNothingToEnd
	}
	a := attempt{Service: s, movement: work, onlyAsk: true}
	// Once it is begun it is ended, whatever becomes of the person's terminal.
	ctx = context.WithoutCancel(ctx)
	if a.decided() {
		return a.store(ctx)
	}
	return a.settle(ctx, verdict)
}
