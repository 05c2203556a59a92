package stripe_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/stripe"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestConfigurationErrorsAndSecrets(t *testing.T) {
	t.Parallel()
	good := simulatedConfig(t)
	for _, key := range []string{good.SecretKey, "sk_live_1", "rk_test_1", "rk_live_1"} {
		config := good
		config.SecretKey = key
		_, err := stripe.New(config)
		require.NoError(t, err)
	}
	for says, change := range map[string]func(*stripe.Config){
		"secret key is not":          func(c *stripe.Config) { c.SecretKey = "" },
		"secret key is not one":      func(c *stripe.Config) { c.SecretKey = "pk_test_nonsense" },
		"webhook secret is not":      func(c *stripe.Config) { c.WebhookSecret = "" },
		"webhook secret is not one":  func(c *stripe.Config) { c.WebhookSecret = "nonsense" },
		"the webhook secret is not":  func(c *stripe.Config) { c.WebhookSecret = "whsec_" },
		"or several with commas":     func(c *stripe.Config) { c.WebhookSecret = "whsec_1,nonsense" },
		"is sent over https alone":   func(c *stripe.Config) { c.SecretKey, c.BaseURL = "sk_live_nonsense", "http://127.0.0.1" },
		"base URL is not an address": func(c *stripe.Config) { c.BaseURL = "api.stripe.com" },
	} {
		config := good
		change(&config)
		_, err := stripe.New(config)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "nonsense")
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("configured", "config", good)
	for _, printed := range []string{fmt.Sprintf("%v", good), fmt.Sprintf("%+v", good), fmt.Sprintf("%#v", good), log.String()} {
		require.NotContains(t, printed, good.SecretKey)
		require.NotContains(t, printed, good.WebhookSecret)
	}
}

func TestWrongSecretKey(t *testing.T) {
	t.Parallel()
	provider, simulator := setup(t, func(c *stripe.Config, _ *pspsim.Options) { c.SecretKey = "sk_test_another" })
	result := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Transient, result.Verdict)
	require.Contains(t, result.Message, "Invalid API Key")
	require.NotContains(t, fmt.Sprintf("%+v %v", result, result.Err), "sk_test_another")
	require.Equal(t, psp.Transient, provider.Refund(t.Context(), withTrade(refundOf("r1", 100), "pi_1")).Verdict)
	require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order-1", 1000)).Verdict, "a query that failed tells nothing")
	require.Empty(t, simulator.Ledger())
}

// The requests go to the base URL and nowhere else, with the path that it has.
func TestBaseURL(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]told{"POST /behind/proxy/v1/payment_intents": {intent("succeeded")}})
	config := simulatedConfig(t)
	config.BaseURL = s.address + "/behind/proxy/"
	provider, err := stripe.New(config)
	require.NoError(t, err)
	require.Equal(t, psp.Succeeded, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
	require.Equal(t, "Bearer "+config.SecretKey, s.requests()[0].auth)
}

// What Stripe may say of a payment intent holds its client_secret, with which
// anybody pays or reads it: an error does not repeat it.
func TestErrorsHoldNoClientSecret(t *testing.T) {
	t.Parallel()
	refusal := told{status: http.StatusPaymentRequired, body: `{"error":{"type":"card_error","code":"card_declined","message":"told",
		"payment_intent":` + intentJSON("pi_1", "requires_payment_method") + `}}`}
	for _, answer := range []told{refusal, {status: http.StatusBadGateway, body: refusal.body}, {status: http.StatusOK, body: "{"}} {
		s := newServer(t, map[string][]told{creates: {intent("requires_payment_method")}, confirms: {answer}})
		result := s.provider.Charge(t.Context(), order("order-1", 1000))
		require.NotEqual(t, psp.Succeeded, result.Verdict)
		require.NotContains(t, fmt.Sprintf("%+v %v", result, result.Err), "secret")
	}
}
