package httpapi

import (
	"net/http"
	"time"

	"github.com/gorilla/mux"
)

// orderBody is an order in a response.
type orderBody struct {
	OrderID      string    `json:"order_id"`
	Status       string    `json:"status"`
	Amount       int64     `json:"amount"`
	Currency     string    `json:"currency"`
	PaidChargeID string    `json:"paid_charge_id,omitempty"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

// getOrder is GET /v1/orders/{id}. Another merchant's order is not found.
func (api *API) getOrder(w http.ResponseWriter, r *http.Request) {
	merchant, ok := api.merchant(w, r)
	if !ok {
		return
	}
	order, err := api.payments.Order(r.Context(), merchant, mux.Vars(r)["id"])
	if err != nil {
		api.failRead(w, r, err)
		return
	}
	writeJSON(w, orderBody{
		OrderID: order.ID, Status: order.Status, Amount: order.Money.Amount, Currency: order.Money.Currency,
		PaidChargeID: order.PaidChargeID, CreatedAt: order.CreatedAt.UTC(), UpdatedAt: order.UpdatedAt.UTC(),
	})
}
