package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/payments"
)

// problemBase is where each problem's code has its explanation.
const problemBase = "https://github.com/payonce/payonce/blob/main/docs/problems.md#"

// Retry tells a client what may be done after a problem.
type Retry string

const (
	// retrySameKey: send the same request with the same key again, after
	// Retry-After, with exponential back-off and jitter.
	retrySameKey Retry = "same_key"
	// retryChanged: mend the request; its key was not used up.
	retryChanged Retry = "changed_request"
	// retryNewKey: this key will answer the same for ever.
	retryNewKey Retry = "new_key"
	// retryNever: the request can never succeed.
	retryNever Retry = "never"
)

// kind is one row of the table of answers.
type kind struct {
	code   string
	status int
	title  string
	retry  Retry
}

// The problems that HTTP itself or the request's form causes, before any claim.
var (
	keyMissing          = kind{"idempotency_key_missing", http.StatusBadRequest, "The Idempotency-Key header is missing", retryChanged}
	keyRepeated         = kind{"idempotency_key_repeated", http.StatusBadRequest, "There is more than one Idempotency-Key header", retryChanged}
	keyInvalid          = kind{"idempotency_key_invalid", http.StatusBadRequest, "The Idempotency-Key is not 1 to 255 printable ASCII characters", retryChanged}
	notificationInvalid = kind{"notification_invalid", http.StatusBadRequest, "The notification is forged, stale or not for us", retryNever}
	notificationFailed  = kind{"notification_failed", http.StatusServiceUnavailable, "The notification did not take effect yet", retrySameKey}
	unauthorized        = kind{"unauthorized", http.StatusUnauthorized, "The api key is missing or not known", retryChanged}
	bodyMalformed       = kind{"body_malformed", http.StatusBadRequest, "The body is not the JSON object that this call takes", retryChanged}
	bodyTooLarge        = kind{"body_too_large", http.StatusRequestEntityTooLarge, "The body is larger than this call takes", retryChanged}
	fieldInvalid        = kind{"field_invalid", http.StatusBadRequest, "A field of the request is missing or not valid", retryChanged}
	notFound            = kind{"not_found", http.StatusNotFound, "There is no such thing here", retryNever}
	methodNotAllowed    = kind{"method_not_allowed", http.StatusMethodNotAllowed, "This path does not take this method", retryNever}
	internalError       = kind{"internal_error", http.StatusInternalServerError, "Something failed on our side", retrySameKey}
	databaseAway        = kind{"database_unavailable", http.StatusServiceUnavailable, "The database does not answer, so nothing was charged", retrySameKey}
	refundDeclined      = kind{"refund_declined", http.StatusPaymentRequired, "The provider refused the refund for good", retryNewKey}
	declined            = kind{"charge_declined", http.StatusPaymentRequired, "The provider refused the charge for good", retryNewKey}
)

// answers is the one table that maps what SQL decided, and how a claimed
// charge ended, to HTTP. Completed and Replay have no row: the stored response
// is the answer.
var answers = map[guard.Outcome]kind{
	guard.Conflict:                {"key_in_progress", http.StatusConflict, "A request with this key is being worked on", retrySameKey},
	guard.Gone:                    {"key_in_progress", http.StatusConflict, "A request with this key is being worked on", retrySameKey},
	guard.Mismatch:                {"key_reused", http.StatusUnprocessableEntity, "This key was used with another request", retryNewKey},
	payments.OrderTaken:           {"order_taken", http.StatusConflict, "The order id is not available", retryNever},
	payments.OrderMismatch:        {"order_mismatch", http.StatusConflict, "The order has another amount or currency", retryNever},
	payments.OrderPaid:            {"order_paid", http.StatusConflict, "The order is paid already", retryNever},
	payments.OrderClosed:          {"order_closed", http.StatusConflict, "The order takes no more charges", retryNever},
	payments.OutOfStock:           {"out_of_stock", http.StatusConflict, "The goods of the order are not there in full", retrySameKey},
	payments.ChargeInProgress:     {"charge_in_progress", http.StatusConflict, "Another charge on this order is not resolved yet", retrySameKey},
	payments.OrderUnknown:         {"order_unknown", http.StatusNotFound, "There is no such order", retryNever},
	payments.OrderNotPaid:         {"order_not_paid", http.StatusConflict, "Nothing was captured on this order yet", retryNever},
	payments.RefundExceedsCapture: {"refund_exceeds_capture", http.StatusConflict, "The refunds would exceed what was captured", retryNever},
	payments.RefundMismatch:       {"refund_mismatch", http.StatusConflict, "The refund number belongs to another order or amount", retryNever},
	payments.RefundExists:         {"refund_exists", http.StatusConflict, "The refund was made under another key", retryNever},
	payments.RefundInProgress:     {"refund_in_progress", http.StatusConflict, "Another request works on this refund", retrySameKey},
	payments.Released:             {"provider_unavailable", http.StatusServiceUnavailable, "The provider could not be used; no money moved", retrySameKey},
	payments.Rejected:             {"provider_rejected", http.StatusBadGateway, "The provider would not take the request; no money moved", retrySameKey},
	payments.LeftInDoubt:          {"outcome_unknown", http.StatusGatewayTimeout, "Whether the money moved is not known yet; the retry will ask the provider", retrySameKey},
}

// problem is an application/problem+json body (RFC 9457) with our extensions.
type problem struct {
	Type            string `json:"type"`
	Title           string `json:"title"`
	Status          int    `json:"status"`
	Code            string `json:"code"`
	Detail          string `json:"detail,omitempty"`
	Retry           Retry  `json:"retry"`
	Field           string `json:"field,omitempty"`
	OrderID         string `json:"order_id,omitempty"`
	ChargeID        string `json:"charge_id,omitempty"`
	RefundID        string `json:"refund_id,omitempty"`
	ProviderCode    string `json:"provider_code,omitempty"`
	ProviderMessage string `json:"provider_message,omitempty"`
}

func (k kind) problem() problem {
	return problem{Type: problemBase + k.code, Title: k.title, Status: k.status, Code: k.code, Retry: k.retry}
}

func (k kind) detail(text string) problem {
	p := k.problem()
	p.Detail = text
	return p
}

const problemType = "application/problem+json"

func writeProblem(w http.ResponseWriter, p problem) {
	body, err := json.Marshal(p)
	if err != nil {
		w.WriteHeader(p.Status)
		return
	}
	w.Header().Set("Content-Type", problemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

// retryAfter sets Retry-After in whole seconds, at least one (RFC 9110).
func retryAfter(w http.ResponseWriter, wait time.Duration) {
	seconds := max(1, int64((wait+time.Second-1)/time.Second))
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
}
