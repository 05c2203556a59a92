package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/psp"
)

// chargeBody is a charge in a response.
type chargeBody struct {
	ChargeID    string            `json:"charge_id"`
	OrderID     string            `json:"order_id"`
	Provider    string            `json:"provider"`
	Method      string            `json:"method,omitempty"`
	Status      payments.Status   `json:"status"`
	Amount      int64             `json:"amount"`
	Currency    string            `json:"currency"`
	TradeNo     string            `json:"trade_no,omitempty"`
	NextAction  map[string]string `json:"next_action,omitempty"`
	FailureCode string            `json:"failure_code,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
}

func bodyOf(charge payments.Charge) chargeBody {
	return chargeBody{
		ChargeID: charge.ID, OrderID: charge.OrderID, Provider: charge.Provider, Method: charge.Method,
		Status: charge.Status, Amount: charge.Money.Amount, Currency: charge.Money.Currency, TradeNo: charge.TradeNo,
		NextAction: charge.Next, FailureCode: charge.FailureCode, CreatedAt: charge.CreatedAt.UTC(),
	}
}

// postCharge is POST /v1/charges.
func (api *API) postCharge(w http.ResponseWriter, r *http.Request) {
	guarded, ok := api.guarded(w, r)
	if !ok {
		return
	}
	request, refused := api.readCharge(w, r, guarded)
	if refused != nil {
		httpguard.WriteProblem(w, *refused)
		return
	}
	info := httpguard.InfoOf(r.Context())
	info.OrderID = request.OrderID
	result, err := api.payments.Begin(r.Context(), request, StoredCharge)
	if err != nil {
		api.failDatabase(w, r, err)
		return
	}
	info.Outcome = string(result.Outcome)
	api.countedCharge(result)
	writeResult(w, result)
}

// readCharge reads and checks the body; whatever is wrong with it is told
// before the key is claimed.
func (api *API) readCharge(
	w http.ResponseWriter, r *http.Request, guarded guard.Request,
) (payments.ChargeRequest, *httpguard.Problem) {
	raw, fields, refused := readObject(w, r)
	if refused != nil {
		return payments.ChargeRequest{}, refused
	}
	guarded.Hash = raw.hash
	request := payments.ChargeRequest{
		Guard:    guarded,
		OrderID:  fields.id("order_id", required),
		Provider: fields.text("provider", required),
		Subject:  fields.text("subject", optional),
		Method:   fields.text("method", optional),
		Money:    fields.money(),
	}
	request.Fields = fields.rest()
	if refused := fields.refused(); refused != nil {
		return payments.ChargeRequest{}, refused
	}
	provider, ok := api.payments.Provider(request.Provider)
	if !ok {
		return payments.ChargeRequest{}, invalidField("provider", "names no provider that is configured here")
	}
	err := provider.Validate(psp.ChargeRequest{
		OrderID: request.OrderID, Attempt: 1, Money: request.Money, Subject: request.Subject, Method: request.Method,
		Fields: request.Fields,
	})
	var fieldError *psp.FieldError
	if errors.As(err, &fieldError) {
		return payments.ChargeRequest{}, invalidField(fieldError.Field, fieldError.Problem)
	}
	if err != nil {
		return payments.ChargeRequest{}, invalidField("provider", err.Error())
	}
	return request, nil
}

// StoredCharge is the response for a charge that has ended; it is stored with
// the key and sent on every retry.
func StoredCharge(charge payments.Charge) (guard.Response, error) {
	status, contentType, payload := http.StatusCreated, jsonType, any(bodyOf(charge))
	if charge.Status == payments.Failed {
		p := problem{Problem: declined.Problem()}
		p.OrderID, p.ChargeID = charge.OrderID, charge.ID
		p.ProviderCode, p.ProviderMessage = charge.FailureCode, charge.FailureMessage
		status, contentType, payload = p.Status, httpguard.ProblemType, p
	}
	body, err := json.Marshal(payload)
	if err != nil {
		return guard.Response{}, fmt.Errorf("encode the answer for charge %s: %w", charge.ID, err)
	}
	return guard.Response{
		Status:  status,
		Headers: map[string]string{"Content-Type": contentType, "Location": "/v1/charges/" + charge.ID},
		Body:    body,
	}, nil
}

// writeResult answers for a charge or a refund.
func writeResult(w http.ResponseWriter, result payments.Result) {
	switch result.Outcome {
	case guard.Completed:
		httpguard.WriteStored(w, result.Response)
		return
	case guard.Replay:
		httpguard.WriteReplay(w, result.Response)
		return
	default:
	}
	kind, ok := answers[result.Outcome]
	if !ok {
		kind = httpguard.InternalError
	}
	p := problem{Problem: kind.Problem()}
	p.OrderID, p.ChargeID, p.ProviderCode = result.Charge.OrderID, result.Charge.ID, result.Code
	if result.Refund.ID != "" {
		p.OrderID, p.ChargeID, p.RefundID = result.Refund.OrderID, result.Refund.ChargeID, result.Refund.ID
	}
	if kind.Retry() == httpguard.RetrySameKey {
		httpguard.RetryAfter(w, result.RetryAfter)
	}
	httpguard.WriteProblem(w, p)
}

// getCharge is GET /v1/charges/{id}: the present state, not the stored answer.
func (api *API) getCharge(w http.ResponseWriter, r *http.Request) {
	merchant, ok := api.merchant(w, r)
	if !ok {
		return
	}
	id := mux.Vars(r)["id"]
	if !isID(id) {
		httpguard.WriteProblem(w, httpguard.NotFound.Problem())
		return
	}
	charge, err := api.payments.Charge(r.Context(), merchant, id)
	if err != nil {
		api.failRead(w, r, err)
		return
	}
	writeJSON(w, bodyOf(charge))
}

// failRead answers 404 for what is not the merchant's, 503 for the rest.
func (api *API) failRead(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, payments.ErrNotFound) {
		httpguard.WriteProblem(w, httpguard.NotFound.Problem())
		return
	}
	api.failDatabase(w, r, err)
}
