// Package psp is the small interface that every payment service provider is
// reached through, and the words in which a provider's answer is judged.
//
// An adapter translates; it decides nothing about keys, orders or HTTP. What
// it must get right is the Verdict: whether the money moved, surely did not
// move, or nobody knows yet.
package psp

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/payonce/payonce/internal/money"
)

// Verdict is what a provider's answer means for the money.
type Verdict int

const (
	// InDoubt means that the money may have moved; ask before charging again. It is the
	// zero value, so that an answer nobody classified is never charged twice.
	InDoubt Verdict = iota
	// Succeeded means that the money moved.
	Succeeded
	// Pending means that the trade exists at the provider and waits for the buyer, or
	// the provider is still working; a notification or a query will tell.
	Pending
	// Terminal means refused for good, no money moved, a retry would be refused too.
	Terminal
	// Transient means that the money surely did not move and a later try may succeed.
	Transient
	// NotFound is only from a query: the provider knows no such trade.
	NotFound
)

// String names the verdict as the logs and metrics do.
func (v Verdict) String() string {
	switch v {
	case InDoubt:
		return "in_doubt"
	case Succeeded:
		return "succeeded"
	case Pending:
		return "pending"
	case Terminal:
		return "terminal"
	case Transient:
		return "transient"
	case NotFound:
		return "not_found"
	}
	return fmt.Sprintf("verdict(%d)", int(v))
}

// ChargeRequest is one charge as the provider needs it.
type ChargeRequest struct {
	// OrderID is the out_trade_no (Alipay, WeChat Pay), the invoiceNo (2C2P).
	OrderID string
	// Attempt counts from 1 and grows only after a Terminal verdict on the
	// same order; providers whose idempotency keys replay failures need it.
	Attempt int
	Money   money.Money
	// Subject is what the buyer reads, such as the shop's name.
	Subject string
	// Method is the provider's way of paying; empty means its default.
	Method string
	// Fields are the provider's own request fields (auth_code, openid, …) as
	// they stood in the request.
	Fields map[string]string
	// NotifyURL is where the provider shall send its notifications.
	NotifyURL string
}

// Trade names a charge that may exist at the provider.
type Trade struct {
	OrderID string
	Attempt int
	Money   money.Money
	// TradeNo is the provider's own number where it is known already.
	TradeNo string
	// StartedAt is when the charge began, by the database's clock: the provider
	// was not asked for it before. Providers that forget an idempotency key need
	// it.
	StartedAt time.Time
}

// Result is a provider's answer, judged.
type Result struct {
	Verdict Verdict
	// Barred goes with NotFound: the query also saw to it that no request that is
	// still on its way can move the money.
	Barred bool
	// TradeNo is the provider's number for the trade, where it told one.
	TradeNo string
	// Paid is the amount that the provider says was paid; zero when untold.
	Paid money.Money
	// Next is what the client needs to go on (code_url, prepay_id,
	// client_secret, payment_url, …).
	Next map[string]string
	// Code is the provider's own code, for logs and for the client.
	Code string
	// Message is the provider's explanation; never a secret.
	Message string
	// Err is the transport or protocol error behind the verdict, for logs.
	Err error
}

// RefundRequest is one refund. RefundID is the provider's refund number
// (out_request_no, out_refund_no, …): equal numbers are one refund.
type RefundRequest struct {
	Trade    Trade
	RefundID string
	Money    money.Money
	Reason   string
	// NotifyURL is where the provider shall send its refund notification.
	NotifyURL string
}

// Event is what a notification tells.
type Event string

// The events of all providers; not every provider has every one.
const (
	EventWaiting       Event = "waiting"
	EventPaid          Event = "paid"
	EventFinished      Event = "finished"
	EventFailed        Event = "failed"
	EventClosed        Event = "closed"
	EventRefundPartial Event = "refund_partial"
	EventRefundFull    Event = "refund_full"
	EventRefundFailed  Event = "refund_failed"
	// EventOther is authentic and of no interest: it is acknowledged and
	// changes nothing. Nothing else of such a Notification need be set.
	EventOther Event = "other"
)

// Notification is a verified message of the provider about one trade.
type Notification struct {
	Event Event
	// Key identifies the event among all deliveries: two deliveries with one
	// key are one event.
	Key     string
	OrderID string
	TradeNo string
	// Money is the order's amount as the provider has it.
	Money money.Money
	// RefundID is set for refund events: the merchant's refund number, or the
	// provider's for a refund that was made past us.
	RefundID string
	// Refunded is the amount of this refund and RefundedTotal what was given
	// back in all so far; a provider tells one of them or both.
	Refunded      money.Money
	RefundedTotal money.Money
	Code          string
}

// Acknowledgement is the answer that stops a provider from sending a
// notification again, to the byte.
type Acknowledgement struct {
	Status      int
	ContentType string
	Body        []byte
}

// Provider is one payment service provider.
//
// Charge, Query, Refund and QueryRefund never return an error beside the
// Result: whatever went wrong has a Verdict, and the zero Verdict is InDoubt.
type Provider interface {
	// Name is the provider's name in the API: alipay, wechat, stripe, 2c2p.
	Name() string
	// Validate refuses a request that the provider would refuse for its form,
	// with a *FieldError, before any key is claimed.
	Validate(ChargeRequest) error
	Charge(context.Context, ChargeRequest) Result
	// Query asks what became of a trade, by our order number.
	Query(context.Context, Trade) Result
	Refund(context.Context, RefundRequest) Result
	QueryRefund(context.Context, RefundRequest) Result
	// ParseNotification verifies and reads one notification; body is the raw
	// request body. A forged, stale or foreign one is an error.
	ParseNotification(ctx context.Context, header http.Header, body []byte) (Notification, error)
	// Acknowledge is the answer for a notification that took effect.
	Acknowledge() Acknowledgement
}

// FieldError names the request field that a provider would refuse.
type FieldError struct {
	Field   string
	Problem string
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }
