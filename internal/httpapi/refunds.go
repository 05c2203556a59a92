package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/payments"
)

// refundBody is a refund in a response.
type refundBody struct {
	RefundID  string          `json:"refund_id"`
	OrderID   string          `json:"order_id"`
	ChargeID  string          `json:"charge_id"`
	Provider  string          `json:"provider"`
	Status    payments.Status `json:"status"`
	Amount    int64           `json:"amount"`
	Currency  string          `json:"currency"`
	TradeNo   string          `json:"trade_no,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
}

// postRefund is POST /v1/refunds.
func (api *API) postRefund(w http.ResponseWriter, r *http.Request) {
	request, ok := api.guarded(w, r)
	if !ok {
		return
	}
	raw, fields, refused := readObject(w, r)
	if refused != nil {
		httpguard.WriteProblem(w, *refused)
		return
	}
	request.Hash = raw.hash
	refund := payments.RefundRequest{
		Guard:    request,
		OrderID:  fields.id("order_id", required),
		RefundID: fields.id("refund_id", optional),
		Amount:   fields.amount(),
		Reason:   fields.text("reason", optional),
	}
	fields.refuseRest()
	if refused := fields.refused(); refused != nil {
		httpguard.WriteProblem(w, *refused)
		return
	}
	info := httpguard.InfoOf(r.Context())
	info.OrderID = refund.OrderID
	result, err := api.payments.BeginRefund(r.Context(), refund, StoredRefund)
	if err != nil {
		api.failDatabase(w, r, err)
		return
	}
	api.counted(info, result.Outcome)
	writeResult(w, result)
}

// StoredRefund is the response for a refund that has ended.
func StoredRefund(refund payments.Refund) (guard.Response, error) {
	status, contentType, payload := http.StatusCreated, jsonType, any(refundBody{
		RefundID: refund.ID, OrderID: refund.OrderID, ChargeID: refund.ChargeID, Provider: refund.Provider,
		Status: refund.Status, Amount: refund.Money.Amount, Currency: refund.Money.Currency, TradeNo: refund.TradeNo,
		CreatedAt: refund.CreatedAt.UTC(),
	})
	if refund.Status == payments.Failed {
		p := problem{Problem: refundDeclined.Problem()}
		p.OrderID, p.ChargeID, p.RefundID = refund.OrderID, refund.ChargeID, refund.ID
		p.ProviderCode, p.ProviderMessage = refund.FailureCode, refund.FailureMessage
		status, contentType, payload = p.Status, httpguard.ProblemType, p
	}
	body, err := json.Marshal(payload)
	if err != nil {
		return guard.Response{}, fmt.Errorf("encode the answer for refund %s: %w", refund.ID, err)
	}
	return guard.Response{Status: status, Headers: map[string]string{"Content-Type": contentType}, Body: body}, nil
}
