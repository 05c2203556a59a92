// Package outbox delivers what a customer shall see, such as an order's
// confirmation, to a configured HTTP endpoint: at least once, each with an id
// that the receiver drops a second delivery by.
package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	claimSQL = `SELECT entry_id, order_id, kind, reference, payload FROM payments.claim_outbox(p_batch => $1::int)`
	doneSQL  = `SELECT payments.outbox_delivered(p_entry_id => $1::bigint)`

	batch       = 20
	pollEvery   = time.Second
	sendTimeout = 8 * time.Second // below the 10 s after which an effect may be claimed again
)

// effect is one entry of the outbox as its receiver gets it; its fields stand in
// the order of the claimed columns.
type effect struct {
	ID        int64           `json:"id"`
	OrderID   string          `json:"order_id"`
	Kind      string          `json:"kind"`
	Reference string          `json:"reference,omitempty"`
	Payload   json.RawMessage `json:"payload"`
}

// newClient follows no redirect: what a customer bought goes to the configured
// receiver and to no address that it names, such as one inside our network.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       sendTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// CheckURL says what is wrong with the address of a receiver, without telling
// what it holds.
func CheckURL(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" {
		return errors.New("the address of the outbox's receiver is not one such as https://shop.example.com/effects")
	}
	return nil
}

// Deliver posts due effects to a receiver until ctx ends. Several servers may do so
// at once. What the receiver does not answer with a 2xx comes back later.
func Deliver(ctx context.Context, pool *pgxpool.Pool, receiver string, log *slog.Logger) {
	client := newClient()
	for {
		delivered, err := deliverBatch(ctx, pool, client, receiver, log)
		if err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "outbox delivery failed", "error", err)
		}
		if delivered == batch {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollEvery):
		}
	}
}

func deliverBatch(
	ctx context.Context, pool *pgxpool.Pool, client *http.Client, receiver string, log *slog.Logger,
) (delivered int, err error) {
	rows, err := pool.Query(ctx, claimSQL, batch)
	if err != nil {
		return 0, fmt.Errorf("claim effects: %w", err)
	}
	effects, err := pgx.CollectRows(rows, pgx.RowToStructByPos[effect])
	if err != nil {
		return 0, fmt.Errorf("claim effects: %w", err)
	}
	for _, e := range effects {
		if err := post(ctx, client, receiver, e); err != nil {
			log.WarnContext(ctx, "effect not delivered; it comes again", "id", e.ID, "kind", e.Kind, "order_id", e.OrderID, "error", err)
			continue
		}
		if _, err := pool.Exec(ctx, doneSQL, e.ID); err != nil {
			return delivered, fmt.Errorf("mark effect %d as delivered: %w", e.ID, err)
		}
		delivered++
	}
	return delivered, nil
}

func post(ctx context.Context, client *http.Client, receiver string, e effect) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode the effect: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, receiver, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", "payonce-outbox-"+strconv.FormatInt(e.ID, 10))
	response, err := client.Do(request)
	if err != nil {
		// url.Error tells the address, and a receiver's may hold a token.
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return fmt.Errorf("post the effect to %s: %w", request.URL.Host, err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answered %s", response.Status)
	}
	return nil
}
