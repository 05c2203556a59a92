package payments

import (
	"context"
	"encoding/base32"
	"fmt"

	"github.com/google/uuid"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/metrics"
	"github.com/payonce/payonce/internal/money"
)

// OrderRequest is a client's request to store an order, validated.
type OrderRequest struct {
	Guard   guard.Request
	OrderID string
	Money   money.Money
	Items   []OrderItem
}

// OrderItem is one line of an order.
type OrderItem struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// CreateOrder stores an order with the response to it, in one round trip.
func (s *Service) CreateOrder(ctx context.Context, request OrderRequest, response guard.Response) (Result, error) {
	headers, err := guard.EncodeHeaders(response.Headers)
	if err != nil {
		return Result{}, err
	}
	skus, quantities := make([]string, len(request.Items)), make([]int64, len(request.Items))
	for i, item := range request.Items {
		skus[i], quantities[i] = item.SKU, item.Quantity
	}
	var columns guard.Columns
	err = s.db.QueryRow(ctx, createOrderSQL, request.Guard.Scope, request.Guard.Key, request.Guard.Path,
		request.Guard.Hash, request.OrderID, request.Money.Amount, request.Money.Currency, skus, quantities,
		response.Status, headers, response.Body, s.limits.TTL).Scan(columns.Targets()...)
	if err != nil {
		return Result{}, fmt.Errorf("create order %s: %w", request.OrderID, err)
	}
	result := resultOf(columns.Result())
	outcome := result.Outcome
	if outcome == guard.Completed {
		outcome = guard.Claimed // claimed and completed in one
	}
	s.metrics.Claim(metrics.Order, string(outcome))
	return result, nil
}

// NewOrderID makes an order number that every provider takes: 27 letters and
// digits, growing with time.
func NewOrderID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an order id: %w", err)
	}
	return "o" + base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(id[:]), nil
}
