// Package providers registers the payment service providers: a new one is one
// folder below internal/psp and one entry here.
package providers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/alipay"
	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/secret"
)

// registration is what the program has to know of a provider.
type registration struct {
	// variable is the environment variable that says that the provider is used;
	// so does a secret's variable with _FILE.
	variable string
	// fromEnvironment configures it; docs/psp lists the variables.
	fromEnvironment func(env Environment, client *http.Client) (psp.Provider, error)
	// simulated configures it for the simulator at one address, and a server
	// at another that gets its notifications.
	simulated func(keys *pspsim.Keys, simulator, server string, client *http.Client) (psp.Provider, error)
}

var registry = []registration{
	{
		variable: "PAYONCE_ALIPAY_APP_ID",
		fromEnvironment: func(env Environment, client *http.Client) (psp.Provider, error) {
			privateKey, errPrivate := env.secret("PAYONCE_ALIPAY_PRIVATE_KEY")
			publicKey, errPublic := env.secret("PAYONCE_ALIPAY_PUBLIC_KEY")
			if err := errors.Join(errPrivate, errPublic); err != nil {
				return nil, err
			}
			return alipay.New(alipay.Config{
				Client: client, AppID: env("PAYONCE_ALIPAY_APP_ID"), PrivateKey: privateKey, AlipayPublicKey: publicKey,
				GatewayURL: env("PAYONCE_ALIPAY_GATEWAY_URL"), SellerID: env("PAYONCE_ALIPAY_SELLER_ID"),
				NotifyURL: env("PAYONCE_ALIPAY_NOTIFY_URL"),
			})
		},
		simulated: func(keys *pspsim.Keys, simulator, _ string, client *http.Client) (psp.Provider, error) {
			return alipay.New(alipay.Config{
				Client: client, AppID: keys.AlipayAppID, PrivateKey: keys.AlipayMerchantPrivateKey, AlipayPublicKey: keys.AlipayPublicKey,
				GatewayURL: simulator + "/alipay/gateway.do",
			})
		},
	},
	wechatPay,
	twoCTwoP,
	stripePayments,
}

// Environment reads a variable; os.Getenv is one.
type Environment func(name string) string

// secret reads a secret that is needed: NAME, or the file that NAME_FILE names.
func (env Environment) secret(name string) (string, error) {
	value, given, err := secret.Read(env, name)
	if err != nil {
		return "", err
	}
	if !given {
		return "", fmt.Errorf("%s or %s%s is needed", name, name, secret.FileSuffix)
	}
	return value, nil
}

// Configured makes the providers that the environment configures. They call
// through client, or http.DefaultClient when it is nil. There must be at least
// one: a server that can charge nobody is a mistake that had better show at start.
func Configured(env Environment, client *http.Client) ([]psp.Provider, error) {
	var providers []psp.Provider
	var variables []string
	for _, r := range registry {
		variables = append(variables, r.variable)
		if env(r.variable) == "" && env(r.variable+secret.FileSuffix) == "" {
			continue
		}
		provider, err := r.fromEnvironment(env, client)
		if err != nil {
			return nil, err
		}
		providers = append(providers, provider)
	}
	if len(providers) == 0 {
		return nil, fmt.Errorf("no payment provider is configured: set one of %s and what docs/psp lists for it, "+
			"or try `payonce dev`, which brings its own simulator", strings.Join(variables, ", "))
	}
	return providers, nil
}

// Simulated makes all providers for the simulator at an address. server is the
// address of the server that gets their notifications, such as
// http://127.0.0.1:8080. client as for Configured.
func Simulated(keys *pspsim.Keys, simulator, server string, client *http.Client) ([]psp.Provider, error) {
	providers := make([]psp.Provider, 0, len(registry))
	for _, r := range registry {
		provider, err := r.simulated(keys, simulator, server, client)
		if err != nil {
			return nil, err
		}
		providers = append(providers, provider)
	}
	return providers, nil
}
