// Package stripe charges through Stripe's PaymentIntents, confirmed by us.
//
// Stripe knows no order number of the merchant's. What makes a retry safe is
// its Idempotency-Key, which here follows from the order id and the attempt,
// or from the refund id, and the PaymentIntent itself, which can be paid once.
package stripe

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/stripe/stripe-go/v82"

	"github.com/payonce/payonce/internal/psp"
)

// Name is the provider's name in the API.
const Name = "stripe"

// Config is one Stripe account.
type Config struct {
	// SecretKey is the account's secret or restricted key, sk_… or rk_….
	SecretKey string
	// WebhookSecret signs the account's events, whsec_…; while a secret is
	// rolled, the old and the new one, separated by a comma.
	WebhookSecret string
	// BaseURL is empty for Stripe itself, or the address of a stand-in.
	BaseURL string
	// Client is http.DefaultClient when nil.
	Client *http.Client
}

// LogValue keeps the secrets out of logs.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(slog.Bool("live", c.live()), slog.String("base_url", c.BaseURL))
}

// String keeps the secrets out of whatever prints a Config.
func (c Config) String() string { return fmt.Sprintf("stripe, live %t, at %q", c.live(), c.BaseURL) }

// GoString is String.
func (c Config) GoString() string { return c.String() }

// live tells by the key's prefix whether it moves real money
// (docs.stripe.com/keys).
func (c Config) live() bool {
	return strings.HasPrefix(c.SecretKey, "sk_live_") || strings.HasPrefix(c.SecretKey, "rk_live_")
}

func (c Config) test() bool {
	return strings.HasPrefix(c.SecretKey, "sk_test_") || strings.HasPrefix(c.SecretKey, "rk_test_")
}

// Provider is Stripe.
type Provider struct {
	client         *sdk.Client
	live           bool
	webhookSecrets []string
}

var _ psp.Provider = (*Provider)(nil)

// New makes the provider, or says what its configuration lacks.
func New(config Config) (*Provider, error) {
	if !config.live() && !config.test() {
		return nil, errors.New("stripe: the secret key is not one that begins with sk_live_, sk_test_, rk_live_ or rk_test_")
	}
	secrets := strings.FieldsFunc(config.WebhookSecret, func(r rune) bool { return r == ',' || r == ' ' })
	wrong := func(secret string) bool { return !strings.HasPrefix(secret, "whsec_") || secret == "whsec_" }
	if len(secrets) == 0 || slices.ContainsFunc(secrets, wrong) {
		return nil, errors.New("stripe: the webhook secret is not one that begins with whsec_, or several with commas between")
	}
	address, err := url.Parse(cmp.Or(config.BaseURL, sdk.APIURL))
	if err != nil || address.Scheme == "" || address.Host == "" {
		return nil, errors.New("stripe: the base URL is not an address such as " + sdk.APIURL)
	}
	if config.live() && address.Scheme != "https" {
		return nil, errors.New("stripe: a live secret key is sent over https alone, and the base URL is not https")
	}
	client := psp.NewClient(config.Client)
	client.Transport = wire{next: client.Transport, prefix: strings.TrimSuffix(address.Path, "/")}
	backends := sdk.NewBackendsWithConfig(&sdk.BackendConfig{
		URL: sdk.String(address.Scheme + "://" + address.Host), HTTPClient: client, MaxNetworkRetries: sdk.Int64(0),
		EnableTelemetry: sdk.Bool(false), LeveledLogger: &sdk.LeveledLogger{Level: sdk.LevelNull},
	})
	return &Provider{
		client: sdk.NewClient(config.SecretKey, sdk.WithBackends(backends)), live: config.live(), webhookSecrets: secrets,
	}, nil
}

// Name implements psp.Provider.
func (p *Provider) Name() string { return Name }

const idempotencyKey = "Idempotency-Key"

// wire is how requests of the SDK leave.
//
// It adds the path of the base URL, which the SDK cannot have. And it keeps
// net/http from sending a request again by itself, which that does with one
// that has an Idempotency-Key when its connection breaks: whether to repeat is
// for the caller to decide, under its deadline. Names of headers have no case
// on the wire; net/http looks for the one spelling only.
type wire struct {
	next   http.RoundTripper
	prefix string
}

func (w wire) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.URL.Path = w.prefix + request.URL.Path
	if key, ok := request.Header[idempotencyKey]; ok {
		delete(request.Header, idempotencyKey)
		request.Header[strings.ToLower(idempotencyKey)] = key
	}
	return w.next.RoundTrip(request) //nolint:wrapcheck // a transport hands the error on as it is
}
