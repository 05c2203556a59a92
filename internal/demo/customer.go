package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// patience bounds how long a customer tries.
	patience = 40 * time.Second
	// requestTimeout is above what either side takes for one charge.
	requestTimeout = 15 * time.Second
	maxPause       = time.Second
)

// customer buys one packet of tea and tries again until the server says how it
// ended, as an app on a bad network does.
type customer struct {
	purchase

	server string
	client *http.Client

	mu       sync.Mutex
	requests int
	told     int // the status that ended it
	body     []byte
	unequal  bool
}

// order stores the order; nothing goes wrong yet.
func (c *customer) order(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{
		"order_id": c.orderID, "amount": c.amount, "currency": c.currency,
		"items": []map[string]any{{"sku": sku, "quantity": 1}},
	})
	if err != nil {
		return fmt.Errorf("write order %s: %w", c.orderID, err)
	}
	status, said, _, err := c.post(ctx, "/v1/orders", "order-"+c.orderID, body)
	if err != nil {
		return err
	}
	if status != http.StatusCreated {
		return fmt.Errorf("order %s was answered %d: %s", c.orderID, status, said)
	}
	return nil
}

// pay charges the order until that has an end.
func (c *customer) pay(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	charge := map[string]any{
		"order_id": c.orderID, "provider": c.provider, "amount": c.amount, "currency": c.currency, "subject": "Tea",
	}
	if c.provider == "stripe" {
		charge["payment_method"] = "pm_card_visa"
	}
	body, err := json.Marshal(charge)
	if err != nil {
		return fmt.Errorf("write the charge of order %s: %w", c.orderID, err)
	}
	wait := 100 * time.Millisecond
	for {
		status, said, pause, err := c.post(ctx, "/v1/charges", "pay-"+c.orderID, body)
		if err == nil && !again(status) {
			c.end(status, said)
			return nil
		}
		if pause == 0 {
			pause, wait = wait, min(2*wait, maxPause)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("order %s had no end after %s: last %d %s %w", c.orderID, patience, status, said, ctx.Err())
		case <-time.After(min(pause, maxPause)):
		}
	}
}

// again tells an answer after which a client sends the same once more.
func again(status int) bool {
	return status == http.StatusConflict || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

func (c *customer) end(status int, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told != 0 && (c.told != status || !bytes.Equal(c.body, body)) {
		c.unequal = true
	}
	c.told, c.body = status, body
}

// post sends one request; pause is what Retry-After asks for.
func (c *customer) post(ctx context.Context, path, key string, body []byte) (status int, said []byte, pause time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, 0, fmt.Errorf("make the request: %w", err)
	}
	// Without it net/http would send the request again by itself, uncounted.
	request.GetBody = nil
	request.Header.Set("Authorization", "Bearer "+apiKey)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	c.mu.Lock()
	c.requests++
	c.mu.Unlock()
	response, err := c.client.Do(request)
	if err != nil {
		return 0, nil, 0, fmt.Errorf("POST %s for order %s: %w", path, c.orderID, err)
	}
	defer func() { _ = response.Body.Close() }()
	said, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, 0, fmt.Errorf("POST %s for order %s: %w", path, c.orderID, err)
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return response.StatusCode, said, time.Duration(seconds) * time.Second, nil
}
