package stripe

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"unicode/utf8"

	sdk "github.com/stripe/stripe-go/v82"

	"github.com/payonce/payonce/internal/psp"
)

// methodCard is the only way of paying: a card, whose PaymentMethod Stripe.js
// made in the buyer's browser.
const methodCard = "card"

// maxField bounds a request field, in characters.
const maxField = 2048

var (
	// orderIDs fit into an idempotency key and a metadata value.
	orderIDs = regexp.MustCompile(`^[\x20-\x7e]{1,64}$`)
	// paymentMethods are ids such as pm_1MtwBwLkdIwHu7ix28a3tqPa.
	paymentMethods = regexp.MustCompile(`^(pm|card|src)_[A-Za-z0-9_]{1,250}$`)
	// knownFields are the request fields of our API that Stripe is handed.
	knownFields = map[string]bool{fieldMethod: true, fieldReturnURL: true, fieldReceipt: true}
)

const (
	fieldMethod    = "payment_method"
	fieldReturnURL = "return_url"
	fieldReceipt   = "receipt_email"
)

// Validate implements psp.Provider.
func (p *Provider) Validate(request psp.ChargeRequest) error {
	if err := validateMoney(request.Money); err != nil {
		return err
	}
	switch {
	case !orderIDs.MatchString(request.OrderID):
		return &psp.FieldError{Field: "order_id", Problem: "must have 1 to 64 printable ASCII characters for stripe"}
	case request.Method != "" && request.Method != methodCard:
		return &psp.FieldError{Field: "method", Problem: "must be card for stripe"}
	}
	for name, value := range request.Fields {
		if !knownFields[name] {
			return &psp.FieldError{Field: name, Problem: "is not a field that stripe takes"}
		}
		if utf8.RuneCountInString(value) > maxField {
			return &psp.FieldError{Field: name, Problem: "is longer than stripe takes"}
		}
	}
	if !paymentMethods.MatchString(request.Fields[fieldMethod]) {
		return &psp.FieldError{Field: fieldMethod, Problem: "must be the id of the buyer's payment method, pm_…, for stripe"}
	}
	if address := request.Fields[fieldReturnURL]; address != "" {
		if parsed, err := url.Parse(address); err != nil || parsed.Scheme == "" {
			return &psp.FieldError{Field: fieldReturnURL, Problem: "must be an address"}
		}
	}
	return nil
}

// Charge implements psp.Provider: a PaymentIntent, then its confirmation, each
// under its own key.
func (p *Provider) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	intent, err := p.open(ctx, psp.Trade{OrderID: request.OrderID, Attempt: request.Attempt, Money: request.Money})
	if err != nil {
		return unopened(err)
	}
	if told := judged(intent.PaymentIntent); told.Verdict != psp.NotFound {
		return told
	}
	confirmed, err := p.client.V1PaymentIntents.Confirm(ctx, intent.ID, &sdk.PaymentIntentConfirmParams{
		Params:        sdk.Params{IdempotencyKey: key(request.OrderID, request.Attempt, intent.generation, "confirm")},
		PaymentMethod: sdk.String(request.Fields[fieldMethod]),
		ReturnURL:     optional(request.Fields[fieldReturnURL]),
		ReceiptEmail:  optional(request.Fields[fieldReceipt]),
	})
	if err != nil {
		return p.unconfirmed(ctx, intent, request, err)
	}
	told := judged(confirmed)
	if confirmed.ID != intent.ID || told.Verdict == psp.NotFound {
		// No answer to a confirm says that nothing was tried.
		told.Verdict = psp.InDoubt
	}
	return told
}

// unopened judges a failure before there is an intent to confirm: whatever
// became of it, no money moved, unless somebody else is at this attempt. Where no
// intent of the attempt can be charged any more, only another attempt can.
func unopened(err error) psp.Result {
	if errors.Is(err, errSpent) {
		return psp.Result{Verdict: psp.Terminal, Code: codeSpent, Message: err.Error()}
	}
	result := failed(charging, err)
	if result.Verdict == psp.InDoubt && result.Code != codeKeyInUse {
		result.Verdict = psp.Transient
	}
	return result
}

// unconfirmed judges a failed confirmation. The key in use with other
// parameters is a refusal; the intent tells what came of the first use.
func (p *Provider) unconfirmed(ctx context.Context, intent found, request psp.ChargeRequest, err error) psp.Result {
	result := failed(charging, err)
	result.TradeNo = intent.ID
	if result.Code != codeIdempotency {
		return result
	}
	told := p.Query(ctx, psp.Trade{
		OrderID: request.OrderID, Attempt: request.Attempt, Money: request.Money, TradeNo: intent.ID,
	})
	if told.Verdict == psp.NotFound {
		return result
	}
	return told
}

// optional leaves an empty parameter out.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
