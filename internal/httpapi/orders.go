package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/payments"
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

const (
	maxItems    = 100
	maxSKU      = 128
	maxQuantity = 1_000_000
)

// createdOrder is the stored answer to POST /v1/orders.
type createdOrder struct {
	OrderID  string               `json:"order_id"`
	Status   string               `json:"status"`
	Amount   int64                `json:"amount"`
	Currency string               `json:"currency"`
	Items    []payments.OrderItem `json:"items,omitempty"`
}

// postOrder is POST /v1/orders.
func (api *API) postOrder(w http.ResponseWriter, r *http.Request) {
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
	order := payments.OrderRequest{
		Guard: request, OrderID: fields.id("order_id", optional), Money: fields.money(), Items: fields.items(),
	}
	fields.refuseRest()
	if refused := fields.refused(); refused != nil {
		httpguard.WriteProblem(w, *refused)
		return
	}
	result, err := api.createOrder(r.Context(), order)
	if err != nil {
		api.failDatabase(w, r, err)
		return
	}
	info := httpguard.InfoOf(r.Context())
	info.OrderID = order.OrderID
	api.counted(info, result.Outcome)
	writeResult(w, result)
}

func (api *API) createOrder(ctx context.Context, order payments.OrderRequest) (payments.Result, error) {
	if order.OrderID == "" {
		id, err := payments.NewOrderID()
		if err != nil {
			return payments.Result{}, err
		}
		order.OrderID = id
	}
	body, err := json.Marshal(createdOrder{
		OrderID: order.OrderID, Status: "pending", Amount: order.Money.Amount, Currency: order.Money.Currency,
		Items: order.Items,
	})
	if err != nil {
		return payments.Result{}, fmt.Errorf("encode the answer for order %s: %w", order.OrderID, err)
	}
	return api.payments.CreateOrder(ctx, order, guard.Response{
		Status:  http.StatusCreated,
		Headers: map[string]string{"Content-Type": jsonType, "Location": "/v1/orders/" + order.OrderID},
		Body:    body,
	})
}

// items reads the lines of an order.
func (f *fields) items() []payments.OrderItem {
	value, ok := f.take("items", optional)
	if !ok {
		return nil
	}
	var items []payments.OrderItem
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&items) != nil || len(items) > maxItems {
		f.refuse("items", "must be at most 100 objects of sku and quantity")
	}
	for _, item := range items {
		if item.SKU == "" || len([]rune(item.SKU)) > maxSKU || !storable(item.SKU) {
			f.refuse("items", "must each have a sku of 1 to 128 characters without U+0000")
		}
		if item.Quantity < 1 || item.Quantity > maxQuantity {
			f.refuse("items", "must each have a quantity of 1 to 1000000")
		}
	}
	return items
}

// getOrder is GET /v1/orders/{id}. Another merchant's order is not found.
func (api *API) getOrder(w http.ResponseWriter, r *http.Request) {
	merchant, ok := api.merchant(w, r)
	if !ok {
		return
	}
	id := mux.Vars(r)["id"]
	if !isID(id) {
		httpguard.WriteProblem(w, httpguard.NotFound.Problem())
		return
	}
	order, err := api.payments.Order(r.Context(), merchant, id)
	if err != nil {
		api.failRead(w, r, err)
		return
	}
	writeJSON(w, orderBody{
		OrderID: order.ID, Status: order.Status, Amount: order.Money.Amount, Currency: order.Money.Currency,
		PaidChargeID: order.PaidChargeID, CreatedAt: order.CreatedAt.UTC(), UpdatedAt: order.UpdatedAt.UTC(),
	})
}
