package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/alipay"
	"github.com/payonce/payonce/internal/pspsim"
)

// providersFromEnvironment makes the providers that the environment
// configures. There must be at least one: a server that can charge nobody is a
// mistake that had better show at start.
func providersFromEnvironment() ([]psp.Provider, error) {
	var providers []psp.Provider
	if os.Getenv("PAYONCE_ALIPAY_APP_ID") != "" {
		provider, err := alipayFromEnvironment()
		if err != nil {
			return nil, err
		}
		providers = append(providers, provider)
	}
	if len(providers) == 0 {
		return nil, errors.New("no payment provider is configured: set PAYONCE_ALIPAY_APP_ID and what docs/psp/alipay.md lists, " +
			"or try `payonce dev`, which brings its own simulator")
	}
	return providers, nil
}

func alipayFromEnvironment() (psp.Provider, error) {
	privateKey, err := secret("PAYONCE_ALIPAY_PRIVATE_KEY")
	if err != nil {
		return nil, err
	}
	publicKey, err := secret("PAYONCE_ALIPAY_PUBLIC_KEY")
	if err != nil {
		return nil, err
	}
	return alipay.New(alipay.Config{
		AppID: os.Getenv("PAYONCE_ALIPAY_APP_ID"), PrivateKey: privateKey, AlipayPublicKey: publicKey,
		GatewayURL: os.Getenv("PAYONCE_ALIPAY_GATEWAY_URL"), SellerID: os.Getenv("PAYONCE_ALIPAY_SELLER_ID"),
		NotifyURL: os.Getenv("PAYONCE_ALIPAY_NOTIFY_URL"),
	})
}

// secret reads NAME, or the file that NAME_FILE names.
func secret(name string) (string, error) {
	if value := os.Getenv(name); value != "" {
		return value, nil
	}
	path := os.Getenv(name + "_FILE")
	if path == "" {
		return "", fmt.Errorf("%s or %s_FILE is needed", name, name)
	}
	content, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", name, err)
	}
	return strings.TrimSpace(string(content)), nil
}

// simulatedProviders are configured for the simulator at an address.
func simulatedProviders(keys *pspsim.Keys, simulator string) ([]psp.Provider, error) {
	provider, err := alipay.New(alipay.Config{
		AppID: keys.AlipayAppID, PrivateKey: keys.AlipayMerchantPrivateKey, AlipayPublicKey: keys.AlipayPublicKey,
		GatewayURL: simulator + "/alipay/gateway.do",
	})
	if err != nil {
		return nil, err
	}
	return []psp.Provider{provider}, nil
}
