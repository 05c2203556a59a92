package providers

import (
	"errors"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/stripe"
	"github.com/payonce/payonce/internal/pspsim"
)

var stripePayments = registration{
	variable: "PAYONCE_STRIPE_SECRET_KEY",
	fromEnvironment: func(env Environment) (psp.Provider, error) {
		secretKey, errKey := env.secret("PAYONCE_STRIPE_SECRET_KEY")
		webhookSecret, errWebhook := env.secret("PAYONCE_STRIPE_WEBHOOK_SECRET")
		if err := errors.Join(errKey, errWebhook); err != nil {
			return nil, err
		}
		return stripe.New(stripe.Config{
			SecretKey: secretKey, WebhookSecret: webhookSecret, BaseURL: env("PAYONCE_STRIPE_BASE_URL"),
		})
	},
	simulated: func(keys *pspsim.Keys, simulator, _ string) (psp.Provider, error) {
		return stripe.New(stripe.Config{
			SecretKey: keys.StripeSecretKey, WebhookSecret: keys.StripeWebhookSecret, BaseURL: simulator + "/stripe",
		})
	},
}
