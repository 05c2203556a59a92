package providers

import (
	"errors"
	"net/http"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/stripe"
	"github.com/payonce/payonce/internal/pspsim"
)

var stripePayments = registration{
	variable: "PAYONCE_STRIPE_SECRET_KEY",
	fromEnvironment: func(env Environment, client *http.Client) (psp.Provider, error) {
		secretKey, errKey := env.secret("PAYONCE_STRIPE_SECRET_KEY")
		webhookSecret, errWebhook := env.secret("PAYONCE_STRIPE_WEBHOOK_SECRET")
		if err := errors.Join(errKey, errWebhook); err != nil {
			return nil, err
		}
		return stripe.New(stripe.Config{
			Client: client, SecretKey: secretKey, WebhookSecret: webhookSecret, BaseURL: env("PAYONCE_STRIPE_BASE_URL"),
		})
	},
	simulated: func(keys *pspsim.Keys, simulator, _ string, client *http.Client) (psp.Provider, error) {
		return stripe.New(stripe.Config{
			Client: client, SecretKey: keys.StripeSecretKey, WebhookSecret: keys.StripeWebhookSecret, BaseURL: simulator + "/stripe",
		})
	},
}
