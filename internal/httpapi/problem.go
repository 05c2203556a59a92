package httpapi

import (
	"net/http"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/payments"
)

// The problems that HTTP itself or the request's form causes, before any claim.
var (
	notificationInvalid = httpguard.NewKind("notification_invalid", http.StatusBadRequest, "The notification is forged, stale or not for us", httpguard.RetryNever)
	notificationFailed  = httpguard.NewKind("notification_failed", http.StatusServiceUnavailable, "The notification did not take effect yet", httpguard.RetrySameKey)
	unauthorized        = httpguard.NewKind("unauthorized", http.StatusUnauthorized, "The api key is missing or not known", httpguard.RetryChanged)
	fieldInvalid        = httpguard.NewKind("field_invalid", http.StatusBadRequest, "A field of the request is missing or not valid", httpguard.RetryChanged)
	refundDeclined      = httpguard.NewKind("refund_declined", http.StatusPaymentRequired, "The provider refused the refund for good", httpguard.RetryNewKey)
	declined            = httpguard.NewKind("charge_declined", http.StatusPaymentRequired, "The provider refused the charge for good", httpguard.RetryNewKey)
)

// answers is the one table that maps what SQL decided, and how a claimed
// charge ended, to HTTP. Completed and Replay have no row: the stored response
// is the answer.
var answers = map[guard.Outcome]httpguard.Kind{
	guard.Conflict:                httpguard.KeyInProgress,
	guard.Gone:                    httpguard.KeyInProgress,
	guard.Mismatch:                httpguard.KeyReused,
	payments.OrderTaken:           httpguard.NewKind("order_taken", http.StatusConflict, "The order id is not available", httpguard.RetryNever),
	payments.OrderMismatch:        httpguard.NewKind("order_mismatch", http.StatusConflict, "The order has another amount or currency", httpguard.RetryNever),
	payments.OrderPaid:            httpguard.NewKind("order_paid", http.StatusConflict, "The order is paid already", httpguard.RetryNever),
	payments.OrderClosed:          httpguard.NewKind("order_closed", http.StatusConflict, "The order takes no more charges", httpguard.RetryNever),
	payments.OutOfStock:           httpguard.NewKind("out_of_stock", http.StatusConflict, "The goods of the order are not there in full", httpguard.RetrySameKey),
	payments.ChargeInProgress:     httpguard.NewKind("charge_in_progress", http.StatusConflict, "Another charge on this order is not resolved yet", httpguard.RetrySameKey),
	payments.OrderUnknown:         httpguard.NewKind("order_unknown", http.StatusNotFound, "There is no such order", httpguard.RetryNever),
	payments.OrderNotPaid:         httpguard.NewKind("order_not_paid", http.StatusConflict, "Nothing was captured on this order yet", httpguard.RetryNever),
	payments.RefundExceedsCapture: httpguard.NewKind("refund_exceeds_capture", http.StatusConflict, "The refunds would exceed what was captured", httpguard.RetryNever),
	payments.RefundMismatch:       httpguard.NewKind("refund_mismatch", http.StatusConflict, "The refund number belongs to another order or amount", httpguard.RetryNever),
	payments.RefundExists:         httpguard.NewKind("refund_exists", http.StatusConflict, "The refund was made under another key", httpguard.RetryNever),
	payments.RefundInProgress:     httpguard.NewKind("refund_in_progress", http.StatusConflict, "Another request works on this refund", httpguard.RetrySameKey),
	payments.Released:             httpguard.NewKind("provider_unavailable", http.StatusServiceUnavailable, "The provider could not be used; no money moved", httpguard.RetrySameKey),
	payments.Rejected:             httpguard.NewKind("provider_rejected", http.StatusBadGateway, "The provider would not take the request; no money moved", httpguard.RetrySameKey),
	payments.LeftInDoubt:          httpguard.NewKind("outcome_unknown", http.StatusGatewayTimeout, "Whether the money moved is not known yet; the retry will ask the provider", httpguard.RetrySameKey),
}

// problem adds what a payment's problem tells besides.
type problem struct {
	httpguard.Problem

	OrderID         string `json:"order_id,omitempty"`
	ChargeID        string `json:"charge_id,omitempty"`
	RefundID        string `json:"refund_id,omitempty"`
	ProviderCode    string `json:"provider_code,omitempty"`
	ProviderMessage string `json:"provider_message,omitempty"`
}
