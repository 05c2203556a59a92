package pspsim

import (
	"net/http"
	"sync"
)

// stripeKeys is Stripe's idempotency layer: docs.stripe.com/api/idempotent_requests
// and docs.stripe.com/error-low-level. What a request came to is kept once its
// execution began, a failure and a 500 too, and never changes. What was refused
// before that (no api key, parameters that are not valid) is not kept.
type stripeKeys struct {
	mu      sync.Mutex
	records map[string]*stripeRecord
}

// stripeRecord is a key that was used. A nil answer: still executing.
type stripeRecord struct {
	request string // endpoint and parameters
	id      string // of the first request
	answer  *answer
}

// begin takes a key for a request. It returns nothing when the request may
// execute, and otherwise the answer that it gets instead.
func (k *stripeKeys) begin(key, request, id string) *answer {
	k.mu.Lock()
	defer k.mu.Unlock()
	record, used := k.records[key]
	switch {
	case !used:
		k.records[key] = &stripeRecord{request: request, id: id}
		return nil
	case record.request != request:
		a := stripeFailure(http.StatusBadRequest, stripeError{
			Type: "idempotency_error",
			Message: "Keys for idempotent requests can only be used with the same parameters they were first used with. " +
				"Try using a key other than '" + key + "' if you meant to execute a different request.",
		})
		return &a
	case record.answer == nil:
		a := stripeFailure(http.StatusConflict, stripeError{
			Type: "invalid_request_error", Code: "idempotency_key_in_use",
			Message: "There is currently another in-progress request using this Idempotency Key. Please try again later.",
		})
		a.header.Set("Stripe-Should-Retry", "true")
		return &a
	}
	replayed := *record.answer
	replayed.header = replayed.header.Clone()
	replayed.header.Set("Idempotent-Replayed", "true")
	replayed.header.Set("Original-Request", record.id)
	return &replayed
}

// finish keeps what the request came to.
func (k *stripeKeys) finish(key string, a answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records[key].answer = &a
}
