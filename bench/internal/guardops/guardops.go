// Package guardops are the guard's calls as the experiments make them: with
// new random keys and a response of usual size, and each answer checked.
package guardops

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/payonce/payonce/internal/guard"
)

// How long a claim is held and a key lives, the product's defaults.
const (
	Lease = 60 * time.Second
	TTL   = 24 * time.Hour
)

// NewRequest makes a request with a new key: a random UUID, as clients make.
func NewRequest() guard.Request {
	key := uuid.NewString()
	hash := sha256.Sum256([]byte(key))
	return guard.Request{Scope: "bench", Key: key, Path: "POST /v1/charges", Hash: hash[:]}
}

// Response is the answer that is stored: a charge as the API writes it.
func Response() guard.Response {
	return guard.Response{
		Status:  201,
		Headers: map[string]string{"Content-Type": "application/json", "Location": "/v1/charges/ch_01a231e6fd5d7115a9ea99d3f7dfe8c0"},
		Body: []byte(`{"charge_id":"ch_01a231e6fd5d7115a9ea99d3f7dfe8c0","order_id":"order-1","provider":"alipay",` +
			`"status":"pending","amount":1000,"currency":"CNY","trade_no":"20261201135911000000000001",` +
			`"created_at":"2026-12-01T13:59:11.456438Z"}`),
	}
}

// Claim claims a new key.
func Claim(ctx context.Context, db guard.DB, request guard.Request) (guard.Holder, error) {
	result, err := guard.Claim(ctx, db, request, Lease, TTL)
	if err != nil {
		return guard.Holder{}, err
	}
	if result.Outcome != guard.Claimed || result.Recovered {
		return guard.Holder{}, fmt.Errorf("claiming a new key gave %s, recovered %t", result.Outcome, result.Recovered)
	}
	return guard.Holder{Scope: request.Scope, Key: request.Key, Fence: result.Fence}, nil
}

// Pair claims a new key and completes it.
func Pair(ctx context.Context, db guard.DB, request guard.Request) error {
	holder, err := Claim(ctx, db, request)
	if err != nil {
		return err
	}
	result, err := guard.Complete(ctx, db, holder, Response())
	if err != nil {
		return err
	}
	if result.Outcome != guard.Completed {
		return fmt.Errorf("completing a claim gave %s", result.Outcome)
	}
	return nil
}

// Replay claims a key that Pair completed.
func Replay(ctx context.Context, db guard.DB, request guard.Request) error {
	result, err := guard.Claim(ctx, db, request, Lease, TTL)
	if err != nil {
		return err
	}
	if result.Outcome != guard.Replay {
		return fmt.Errorf("claiming a completed key gave %s", result.Outcome)
	}
	if !bytes.Equal(result.Response.Body, Response().Body) {
		return errors.New("the replay has other bytes than were stored")
	}
	return nil
}
