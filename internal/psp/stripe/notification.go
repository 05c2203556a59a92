package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v82"
	"github.com/stripe/stripe-go/v82/webhook"

	"github.com/payonce/payonce/internal/psp"
)

const signatureHeader = "Stripe-Signature"

// effects reads the events that have one.
var effects = map[sdk.EventType]func(psp.Notification, json.RawMessage) (psp.Notification, error){
	sdk.EventTypePaymentIntentSucceeded: paidEvent,
	sdk.EventTypeChargeRefunded:         chargeRefunded,
	sdk.EventTypeRefundCreated:          refundEvent,
	sdk.EventTypeRefundUpdated:          refundEvent,
	sdk.EventTypeRefundFailed:           refundEvent,
}

// ParseNotification implements psp.Provider: an event, signed over its time
// and its bytes (docs.stripe.com/webhooks#verify-manually). Stripe numbers its
// events, and joins them with the order by the metadata that an intent, its
// charge and its refunds were made with.
//
// An event of an intent that waits, was refused or was cancelled changes
// nothing: it may be of an earlier attempt than the present one, and what
// became of this one our own call is told, or the inquiry asks.
func (p *Provider) ParseNotification(_ context.Context, header http.Header, body []byte) (psp.Notification, error) {
	if err := p.verify(header, body, time.Now()); err != nil {
		return psp.Notification{}, err
	}
	var event sdk.Event
	if err := json.Unmarshal(body, &event); err != nil {
		return psp.Notification{}, errors.New("stripe: the event is not one that can be read")
	}
	switch {
	case event.ID == "" || event.Data == nil:
		return psp.Notification{}, errors.New("stripe: the event has no id or no data")
	case event.Livemode != p.live:
		return psp.Notification{}, fmt.Errorf("stripe: event %s has livemode %t, unlike the secret key", event.ID, event.Livemode)
	case event.Account != "":
		return psp.Notification{}, fmt.Errorf("stripe: event %s is of the connected account %q", event.ID, event.Account)
	}
	n := psp.Notification{Event: psp.EventOther, Key: "webhook:stripe:" + event.ID, Code: string(event.Type)}
	read, ok := effects[event.Type]
	if !ok {
		return n, nil
	}
	n, err := read(n, event.Data.Raw)
	if err != nil {
		return psp.Notification{}, fmt.Errorf("stripe: event %s: %w", event.ID, err)
	}
	return n, nil
}

// verify wants one of the signatures to be by one of the secrets, and the time
// that is signed to be within the tolerance of now, in the past or the future.
func (p *Provider) verify(header http.Header, body []byte, now time.Time) error {
	values := header.Values(signatureHeader)
	if len(values) != 1 {
		return fmt.Errorf("stripe: the event has %d %s headers, not one", len(values), signatureHeader)
	}
	signed, err := signedAt(values[0])
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(p.webhookSecrets, func(secret string) bool {
		return webhook.ValidatePayloadIgnoringTolerance(body, values[0], secret) == nil
	}) {
		return errors.New("stripe: the event's signature does not verify")
	}
	if age := now.Sub(signed); age.Abs() > webhook.DefaultTolerance {
		return fmt.Errorf("stripe: the event was signed %s before now, which is too far off", age.Round(time.Second))
	}
	return nil
}

// signedAt is the one time in the header.
func signedAt(header string) (time.Time, error) {
	var found []string
	for part := range strings.SplitSeq(header, ",") {
		if value, ok := strings.CutPrefix(part, "t="); ok {
			found = append(found, value)
		}
	}
	if len(found) != 1 {
		return time.Time{}, fmt.Errorf("stripe: the %s header has %d times, not one", signatureHeader, len(found))
	}
	seconds, err := strconv.ParseInt(found[0], 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("stripe: the time in the %s header is no number", signatureHeader)
	}
	return time.Unix(seconds, 0), nil
}

// ours tells an object that we made from others of the same account: it has
// both names that no other program gives together.
func ours(metadata map[string]string, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return metadata[name] == "" })
}

func paidEvent(n psp.Notification, object json.RawMessage) (psp.Notification, error) {
	var intent sdk.PaymentIntent
	if err := json.Unmarshal(object, &intent); err != nil {
		return n, fmt.Errorf("read the payment intent: %w", err)
	}
	if !ours(intent.Metadata, metaOrder, metaAttempt) {
		return n, nil
	}
	if intent.Status != sdk.PaymentIntentStatusSucceeded {
		return n, fmt.Errorf("payment intent %s succeeded and has status %q", intent.ID, intent.Status)
	}
	received, err := minor(intent.AmountReceived, string(intent.Currency))
	if err != nil {
		return n, err
	}
	n.Event, n.OrderID, n.TradeNo, n.Money = psp.EventPaid, intent.Metadata[metaOrder], intent.ID, received
	return n, nil
}

// chargeRefunded tells the total that was given back, also of refunds that
// were made past us. A charge has the metadata of its intent.
func chargeRefunded(n psp.Notification, object json.RawMessage) (psp.Notification, error) {
	var charge sdk.Charge
	if err := json.Unmarshal(object, &charge); err != nil {
		return n, fmt.Errorf("read the charge: %w", err)
	}
	if !ours(charge.Metadata, metaOrder, metaAttempt) || charge.PaymentIntent == nil {
		return n, nil
	}
	amount, err := minor(charge.Amount, string(charge.Currency))
	if err != nil {
		return n, err
	}
	total, err := minor(charge.AmountRefunded, string(charge.Currency))
	if err != nil {
		return n, err
	}
	n.Event = psp.EventRefundPartial
	if charge.Refunded {
		n.Event = psp.EventRefundFull
	}
	n.OrderID, n.TradeNo, n.Money, n.RefundedTotal = charge.Metadata[metaOrder], charge.PaymentIntent.ID, amount, total
	return n, nil
}

// refundEvent tells the end of a refund of ours. One that was made past us has
// no number of ours; its charge tells it.
func refundEvent(n psp.Notification, object json.RawMessage) (psp.Notification, error) {
	var refund sdk.Refund
	if err := json.Unmarshal(object, &refund); err != nil {
		return n, fmt.Errorf("read the refund: %w", err)
	}
	if !ours(refund.Metadata, metaOrder, metaRefund) || refund.PaymentIntent == nil {
		return n, nil
	}
	amount, err := minor(refund.Amount, string(refund.Currency))
	if err != nil {
		return n, err
	}
	switch refund.Status {
	case sdk.RefundStatusSucceeded:
		n.Event = psp.EventRefundPartial
	case sdk.RefundStatusFailed, sdk.RefundStatusCanceled:
		n.Event, n.Code = psp.EventRefundFailed, string(refund.FailureReason)
	case sdk.RefundStatusPending, sdk.RefundStatusRequiresAction:
		return n, nil
	default:
		return n, fmt.Errorf("refund %s has an unknown status %q", refund.ID, refund.Status)
	}
	n.OrderID, n.TradeNo, n.RefundID = refund.Metadata[metaOrder], refund.PaymentIntent.ID, refund.Metadata[metaRefund]
	n.Refunded = amount
	return n, nil
}

// Acknowledge implements psp.Provider: any 2xx status will do
// (docs.stripe.com/webhooks#acknowledge-events-immediately).
func (p *Provider) Acknowledge() psp.Acknowledgement {
	return psp.Acknowledgement{Status: http.StatusOK, ContentType: "application/json", Body: []byte("{}")}
}
