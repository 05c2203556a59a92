package stripe_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/stripe"
	"github.com/payonce/payonce/internal/pspsim"
)

var keys = sync.OnceValues(pspsim.NewKeys)

func madeKeys(t *testing.T) *pspsim.Keys {
	t.Helper()
	made, err := keys()
	require.NoError(t, err)
	return made
}

// simulatedConfig is what the simulator's account is configured with.
func simulatedConfig(t *testing.T) stripe.Config {
	t.Helper()
	made := madeKeys(t)
	return stripe.Config{SecretKey: made.StripeSecretKey, WebhookSecret: made.StripeWebhookSecret}
}

// setup makes the adapter and the simulator that it talks to. Nobody is
// notified unless a test says so.
func setup(t *testing.T, change func(*stripe.Config, *pspsim.Options)) (*stripe.Provider, *pspsim.Simulator) {
	t.Helper()
	options := pspsim.Options{Keys: madeKeys(t), Quiet: true}
	config := simulatedConfig(t)
	if change != nil {
		change(&config, &options)
	}
	simulator := pspsim.New(options)
	server := httptest.NewServer(simulator.Handler())
	t.Cleanup(func() {
		simulator.Close()
		server.Close()
	})
	if config.BaseURL == "" {
		config.BaseURL = server.URL + "/stripe"
	}
	provider, err := stripe.New(config)
	require.NoError(t, err)
	return provider, simulator
}

// told is an answer as Stripe gives it.
type told struct {
	status   int
	body     string
	replayed bool
}

// asked is a request as Stripe gets it.
type asked struct {
	call string // method and path
	key  string // Idempotency-Key
	auth string
	form url.Values
}

// server speaks for Stripe with fixed answers and keeps the requests. An
// answer is found by method and path; of several, each is given once and the
// last one from then on.
type server struct {
	provider *stripe.Provider
	address  string
	mu       sync.Mutex
	answers  map[string][]told
	got      []asked
}

func (s *server) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *server) calls() []string {
	var calls []string
	for _, each := range s.requests() {
		calls = append(calls, each.call)
	}
	return calls
}

func (s *server) next(call asked) (told, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, call)
	queue := s.answers[call.call]
	if len(queue) == 0 {
		return told{}, false
	}
	if len(queue) > 1 {
		s.answers[call.call] = queue[1:]
	}
	return queue[0], true
}

func newServer(t *testing.T, answers map[string][]told) *server {
	t.Helper()
	s := &server{answers: answers}
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		answer, ok := s.next(asked{
			call: r.Method + " " + r.URL.Path, key: r.Header.Get("Idempotency-Key"), auth: r.Header.Get("Authorization"), form: r.Form,
		})
		if !ok {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		if answer.status == 0 { // the connection breaks
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		if answer.replayed {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		w.WriteHeader(answer.status)
		_, _ = io.WriteString(w, answer.body)
	}))
	t.Cleanup(listening.Close)
	s.address = listening.URL
	config := simulatedConfig(t)
	config.BaseURL = listening.URL
	provider, err := stripe.New(config)
	require.NoError(t, err)
	s.provider = provider
	return s
}

const (
	creates  = "POST /v1/payment_intents"
	lists    = "GET /v1/payment_intents"
	reads    = "GET /v1/payment_intents/pi_1"
	confirms = "POST /v1/payment_intents/pi_1/confirm"
	cancels  = "POST /v1/payment_intents/pi_1/cancel"
	refunds  = "POST /v1/refunds"
	listsRef = "GET /v1/refunds"
)

// intent is a payment intent of order-1's first attempt, over 10.00 USD.
func intent(status string, more ...string) told {
	return told{status: http.StatusOK, body: intentJSON("pi_1", status, more...)}
}

func intentJSON(id, status string, more ...string) string {
	received := 0
	if status == "succeeded" {
		received = 1000
	}
	return fmt.Sprintf(`{"id":%q,"object":"payment_intent","amount":1000,"amount_received":%d,"currency":"usd","status":%q,
		"client_secret":"pi_1_secret_x","metadata":{"order_id":"order-1","attempt":"1"}%s}`,
		id, received, status, strings.Join(append([]string{""}, more...), ","))
}

func list(items ...string) told {
	return told{status: http.StatusOK, body: `{"object":"list","has_more":false,"data":[` + strings.Join(items, ",") + `]}`}
}

func problem(status int, kind, code string) told {
	body := fmt.Sprintf(`{"error":{"type":%q,"message":"told"`, kind)
	if code != "" {
		body += fmt.Sprintf(`,"code":%q`, code)
	}
	return told{status: status, body: body + "}}"}
}

func again(answer told) told {
	answer.replayed = true
	return answer
}

func usd(cents int64) money.Money { return money.Money{Amount: cents, Currency: "USD"} }

func order(id string, cents int64) psp.ChargeRequest {
	return psp.ChargeRequest{
		OrderID: id, Attempt: 1, Money: usd(cents), Fields: map[string]string{"payment_method": "pm_card_visa"},
	}
}

func attempt(request psp.ChargeRequest, number int) psp.ChargeRequest {
	request.Attempt = number
	return request
}

func payingWith(request psp.ChargeRequest, method string) psp.ChargeRequest {
	request.Fields = map[string]string{"payment_method": method}
	return request
}

func trade(id string, cents int64) psp.Trade {
	return psp.Trade{OrderID: id, Attempt: 1, Money: usd(cents), StartedAt: time.Now()}
}

func refundOf(id string, cents int64) psp.RefundRequest {
	return psp.RefundRequest{Trade: trade("order-1", 1000), RefundID: id, Money: usd(cents), Reason: "returned"}
}
