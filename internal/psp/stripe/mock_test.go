package stripe_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/stripe"
)

// seen keeps what came of each request. stripe-mock's one example of a payment
// intent was refused before and is of no order; a new one, and one that is read,
// are made one of order-1 that nobody has tried.
type seen struct {
	next  http.Transport // of its own: no connection to what had the port before
	mu    sync.Mutex
	calls []string
}

func (s *seen) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // a transport hands the error on as it is
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.Split(request.URL.Path, "/")
	for i, part := range path {
		if strings.HasPrefix(part, "pi_") {
			path[i] = "{id}"
		}
	}
	s.calls = append(s.calls, request.Method+" "+strings.Join(path, "/")+" "+http.StatusText(response.StatusCode))
	if _, known := strings.CutPrefix(request.URL.Path, "/v1/payment_intents"); known && !strings.HasSuffix(request.URL.Path, "/confirm") {
		return untried(response)
	}
	return response, nil
}

func untried(response *http.Response) (*http.Response, error) {
	defer func() { _ = response.Body.Close() }()
	var object map[string]any
	if err := json.NewDecoder(response.Body).Decode(&object); err != nil {
		return nil, fmt.Errorf("read an answer of stripe-mock: %w", err)
	}
	if object["object"] == "payment_intent" {
		delete(object, "last_payment_error")
		delete(object, "latest_charge")
		object["metadata"] = map[string]string{"order_id": "order-1", "attempt": "1"}
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("write an answer of stripe-mock: %w", err)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	return response, nil
}

// stripeMock starts Stripe's own fake, which checks each request against
// Stripe's OpenAPI description and answers with that description's examples.
func stripeMock(t *testing.T) string {
	t.Helper()
	path, err := exec.CommandContext(t.Context(), "../../../scripts/stripe-mock.sh").Output()
	require.NoError(t, err, "scripts/stripe-mock.sh builds stripe-mock with go install")
	command := exec.CommandContext(t.Context(), strings.TrimSpace(string(path)), "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0",
		"-strict-version-check=false")
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	command.Stderr = t.Output()
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "Listening for HTTP at address: "); ok {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return "http://" + address
		}
	}
	require.Fail(t, "stripe-mock did not say where it listens")
	return ""
}

// Every call of the adapter is one that Stripe's description of its API allows.
func TestAgainstStripeMock(t *testing.T) {
	t.Parallel()
	calls := &seen{}
	config := stripe.Config{
		SecretKey: "sk_test_123", WebhookSecret: "whsec_123", BaseURL: stripeMock(t), Client: &http.Client{Transport: calls},
	}
	provider, err := stripe.New(config)
	require.NoError(t, err)
	request := order("order-1", 1000)
	request.Fields["return_url"], request.Fields["receipt_email"] = "https://shop.example/back", "buyer@shop.example"
	require.NoError(t, provider.Validate(request))

	charged := provider.Charge(t.Context(), request)
	require.Equal(t, psp.Terminal, charged.Verdict, "the example of a confirmation is a refusal: %+v", charged)
	asked := trade("order-1", 1000)
	require.Equal(t, psp.NotFound, provider.Query(t.Context(), asked).Verdict, "nobody tried it, and it is cancelled")
	asked.TradeNo = charged.TradeNo
	require.Equal(t, psp.NotFound, provider.Query(t.Context(), asked).Verdict)
	asked.TradeNo, asked.StartedAt = "", asked.StartedAt.AddDate(0, 0, -2)
	require.Equal(t, psp.NotFound, provider.Query(t.Context(), asked).Verdict, "the list has none of this order")

	refunded := provider.Refund(t.Context(), withTrade(refundOf("r1", 300), "pi_1"))
	require.Equal(t, psp.Succeeded, refunded.Verdict, "the example is made, over the amount that was asked for: %+v", refunded)
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), withTrade(refundOf("r1", 300), "pi_1")).Verdict)

	slices.Sort(calls.calls)
	require.Equal(t, []string{
		"GET /v1/payment_intents OK", "GET /v1/payment_intents/{id} OK", "GET /v1/refunds OK", "POST /v1/payment_intents OK",
		"POST /v1/payment_intents/{id}/cancel OK", "POST /v1/payment_intents/{id}/confirm OK", "POST /v1/refunds OK",
	}, slices.Compact(calls.calls))

	// And it does refuse what the description does not allow.
	unknown, err := http.NewRequestWithContext(t.Context(), http.MethodPost, config.BaseURL+"/v1/payment_intents",
		strings.NewReader("amount=1000&currency=usd&nonsense=1"))
	require.NoError(t, err)
	unknown.Header.Set("Authorization", "Bearer sk_test_123")
	unknown.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(unknown)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
}
