package guard

import (
	"context"
	"fmt"
)

// The outcomes of guard.operator_take, beside Completed and Gone.
const (
	Taken Outcome = "taken"
	Held  Outcome = "held"
)

// Operation is what a person does to a key.
type Operation struct {
	Scope string
	Key   string
	// Action is release or resolve.
	Action string
	// Actor names the person, 1 to 255 characters.
	Actor string
	// Reason says why, 1 to 1000 characters.
	Reason string
	// Force takes the key even from a holder that is at work.
	Force bool
}

const operatorTakeSQL = `SELECT outcome, coalesce(fence, 0)
  FROM guard.operator_take(p_scope => $1::text, p_key => $2::text, p_action => $3::text, p_actor => $4::text,
       p_reason => $5::text, p_force => $6::boolean)`

// TakeByHand takes an open key over for a person; the holder is valid with
// outcome Taken alone.
func TakeByHand(ctx context.Context, db DB, o Operation) (Outcome, Holder, error) {
	holder := Holder{Scope: o.Scope, Key: o.Key}
	var outcome string
	err := db.QueryRow(ctx, operatorTakeSQL, o.Scope, o.Key, o.Action, o.Actor, o.Reason, o.Force).
		Scan(&outcome, &holder.Fence)
	if err != nil {
		return "", Holder{}, fmt.Errorf("take the key over: %w", err)
	}
	return Outcome(outcome), holder, nil
}
