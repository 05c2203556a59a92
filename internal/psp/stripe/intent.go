package stripe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v82"

	"github.com/payonce/payonce/internal/psp"
)

// The metadata that joins Stripe's objects with ours.
const (
	metaOrder   = "order_id"
	metaAttempt = "attempt"
	metaRefund  = "refund_id"
	metaReason  = "reason"
)

const (
	// keyLife is how long a key is surely known: Stripe forgets it after 24
	// hours at the earliest (docs.stripe.com/api/idempotent_requests).
	keyLife = 23 * time.Hour
	// clockLeeway is how far Stripe's clock may be off ours.
	clockLeeway = 10 * time.Minute
	// maxGenerations bounds the keys of one attempt: each is one that Stripe
	// answers with a failure of its own for good, or an intent that was
	// cancelled before anything was charged.
	maxGenerations = 8
	pageSize       = 100
)

// codeSpent is our own code for errSpent.
const codeSpent = "payonce_intents_spent"

// errSpent says that no intent of an attempt can be charged any more.
var errSpent = errors.New("stripe: the intents of this attempt are cancelled or failed at stripe")

// key is the idempotency key of one step of one attempt. The order id is the
// only part that may have a slash, so that no two steps share a key.
func key(orderID string, attempt, generation int, step string) *string {
	number := strconv.Itoa(attempt)
	if generation > 1 {
		number += "." + strconv.Itoa(generation)
	}
	return sdk.String("payonce/" + orderID + "/" + number + "-" + step)
}

// found is an intent of an attempt.
type found struct {
	*sdk.PaymentIntent
	// generation is which of the attempt's intents it is, from 1.
	generation int
}

// open makes the attempt's intent, or finds the one that was made before: the
// same key gets the same intent. What the answer to a repeated key says is
// old, so the intent is read anew.
//
// An intent that is not confirmed moves no money, so that neither does a
// failure here. The parameters follow from the trade alone: a reconciler has
// to be able to repeat them.
func (p *Provider) open(ctx context.Context, trade psp.Trade) (found, error) {
	amount, err := units(trade.Money)
	if err != nil {
		return found{}, err
	}
	for generation := 1; generation <= maxGenerations; generation++ {
		intent, err := p.client.V1PaymentIntents.Create(ctx, &sdk.PaymentIntentCreateParams{
			Params: sdk.Params{
				IdempotencyKey: key(trade.OrderID, trade.Attempt, generation, "create"),
				Metadata:       map[string]string{metaOrder: trade.OrderID, metaAttempt: strconv.Itoa(trade.Attempt)},
			},
			Amount: sdk.Int64(amount), Currency: sdk.String(strings.ToLower(trade.Money.Currency)),
			PaymentMethodTypes: []*string{sdk.String(methodCard)},
		})
		if neverChanges(err) {
			continue
		}
		if err == nil && replayed(intent.LastResponse) {
			intent, err = p.retrieve(ctx, intent.ID)
		}
		if err != nil {
			return found{}, err
		}
		if intent.Status != sdk.PaymentIntentStatusCanceled || attempted(intent) {
			return found{intent, generation}, nil
		}
	}
	return found{}, errSpent
}

func (p *Provider) retrieve(ctx context.Context, id string) (*sdk.PaymentIntent, error) {
	if id == "" {
		return nil, errors.New("stripe: the answer names no payment intent")
	}
	return p.client.V1PaymentIntents.Retrieve(ctx, id, nil) //nolint:wrapcheck // judged by failed
}

// attempted tells whether a charge was ever tried on the intent.
func attempted(intent *sdk.PaymentIntent) bool {
	return intent.LatestCharge != nil || intent.LastPaymentError != nil
}

// Query implements psp.Provider, without Stripe's search, which may be an hour
// behind (docs.stripe.com/api/payment_intents/search).
//
// A trade whose number is known is read by it. Otherwise the create is
// repeated, which gives the one intent of that key; once the key may be
// forgotten, the intents since the start of the charge are listed.
//
// An intent that waits to be confirmed, or that was refused, is cancelled
// before the answer is NotFound or Terminal: a confirm that is still on its way
// then comes too late, and a buyer who was given its client_secret cannot pay
// it beside the next attempt.
func (p *Provider) Query(ctx context.Context, trade psp.Trade) psp.Result {
	if trade.TradeNo != "" {
		intent, err := p.retrieve(ctx, trade.TradeNo)
		if err != nil {
			return failed(asking, err)
		}
		return p.ended(ctx, intent, trade)
	}
	if time.Since(trade.StartedAt) > keyLife {
		return p.queryListed(ctx, trade)
	}
	intent, err := p.open(ctx, trade)
	switch {
	case errors.Is(err, errSpent):
		return psp.Result{Verdict: psp.NotFound, Barred: true, Message: err.Error()}
	case err != nil:
		return failed(asking, err)
	}
	return p.ended(ctx, intent.PaymentIntent, trade)
}

// queryListed judges by all intents of the attempt: the one that was paid or
// may be, if there is one.
func (p *Provider) queryListed(ctx context.Context, trade psp.Trade) psp.Result {
	intents, err := p.listed(ctx, trade)
	if err != nil {
		return failed(asking, err)
	}
	result := psp.Result{Verdict: psp.NotFound}
	for _, intent := range intents {
		told := p.ended(ctx, intent, trade)
		if told.Verdict != psp.NotFound && told.Verdict != psp.Terminal {
			return told
		}
		if told.Verdict == psp.Terminal && attempted(intent) {
			result = told
		}
	}
	return result
}

// listed reads the intents of an attempt from the list of all since the charge
// began. The list is read to its end: one that breaks off is an error.
func (p *Provider) listed(ctx context.Context, trade psp.Trade) ([]*sdk.PaymentIntent, error) {
	since := max(1, trade.StartedAt.Add(-clockLeeway).Unix())
	params := &sdk.PaymentIntentListParams{CreatedRange: &sdk.RangeQueryParams{GreaterThanOrEqual: since}}
	params.Limit = sdk.Int64(pageSize)
	var intents []*sdk.PaymentIntent
	for intent, err := range p.client.V1PaymentIntents.List(ctx, params) {
		if err != nil {
			return nil, err //nolint:wrapcheck // judged by failed
		}
		if belongs(intent, trade) {
			intents = append(intents, intent)
		}
	}
	return intents, nil
}

func belongs(intent *sdk.PaymentIntent, trade psp.Trade) bool {
	return intent.Metadata[metaOrder] == trade.OrderID && intent.Metadata[metaAttempt] == strconv.Itoa(trade.Attempt)
}

// ended judges an intent for a query, and sees to it that one that is judged
// unpaid stays so.
func (p *Provider) ended(ctx context.Context, intent *sdk.PaymentIntent, trade psp.Trade) psp.Result {
	if !belongs(intent, trade) {
		return psp.Result{Err: fmt.Errorf("stripe: payment intent %s is not one of order %s", intent.ID, trade.OrderID)}
	}
	result := judged(intent)
	unpaid := result.Verdict == psp.NotFound || result.Verdict == psp.Terminal
	result.Barred = result.Verdict == psp.NotFound
	if !unpaid || intent.Status == sdk.PaymentIntentStatusCanceled {
		return result
	}
	params := &sdk.PaymentIntentCancelParams{
		CancellationReason: sdk.String(string(sdk.PaymentIntentCancellationReasonAbandoned)),
	}
	if _, err := p.client.V1PaymentIntents.Cancel(ctx, intent.ID, params); err != nil {
		return failed(asking, err)
	}
	return result
}

// judged tells what the status of an intent means for the money
// (docs.stripe.com/payments/paymentintents/lifecycle). NotFound is an intent
// on which nothing was tried yet.
func judged(intent *sdk.PaymentIntent) psp.Result {
	result := psp.Result{TradeNo: intent.ID, Code: string(intent.Status)}
	switch intent.Status {
	case sdk.PaymentIntentStatusSucceeded:
		return paid(result, intent.AmountReceived, string(intent.Currency))
	case sdk.PaymentIntentStatusProcessing:
		result.Verdict = psp.Pending
	case sdk.PaymentIntentStatusRequiresAction:
		result.Verdict, result.Next = psp.Pending, nextAction(intent)
	case sdk.PaymentIntentStatusRequiresPaymentMethod, sdk.PaymentIntentStatusRequiresConfirmation:
		if !attempted(intent) {
			result.Verdict = psp.NotFound
			return result
		}
		result.Verdict = psp.Terminal
		if problem := intent.LastPaymentError; problem != nil {
			result.Code, result.Message = codeOf(problem), problem.Msg
		}
	case sdk.PaymentIntentStatusCanceled:
		result.Verdict, result.Message = psp.Terminal, "the payment intent was cancelled unpaid"
	case sdk.PaymentIntentStatusRequiresCapture:
		result.Message = "the payment intent is authorized and not captured, which is not how payonce makes them"
	}
	return result
}

// nextAction is what the buyer's client needs to authenticate.
func nextAction(intent *sdk.PaymentIntent) map[string]string {
	next := map[string]string{"client_secret": intent.ClientSecret}
	if action := intent.NextAction; action != nil && action.RedirectToURL != nil && action.RedirectToURL.URL != "" {
		next["redirect_url"] = action.RedirectToURL.URL
	}
	return next
}

// paid reads the amount that was moved. One that cannot be read leaves it in
// doubt.
func paid(result psp.Result, amount int64, currency string) psp.Result {
	moved, err := minor(amount, currency)
	if err != nil {
		result.Verdict, result.Err = psp.InDoubt, err
		return result
	}
	result.Verdict, result.Paid = psp.Succeeded, moved
	return result
}
