package alipay_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/alipay"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestConfigurationErrorsAndSecrets(t *testing.T) {
	t.Parallel()
	made, err := keys()
	require.NoError(t, err)
	good := alipay.Config{AppID: "1", PrivateKey: made.AlipayMerchantPrivateKey, AlipayPublicKey: made.AlipayPublicKey}
	for says, change := range map[string]func(*alipay.Config){
		"app id is missing":            func(c *alipay.Config) { c.AppID = "" },
		"private key is missing":       func(c *alipay.Config) { c.PrivateKey = "" },
		"public key is missing":        func(c *alipay.Config) { c.AlipayPublicKey = "" },
		"private key is not an RSA":    func(c *alipay.Config) { c.PrivateKey = "secret nonsense" },
		"gateway is not an address":    func(c *alipay.Config) { c.GatewayURL = "gateway.do" },
		"public key is not an RSA key": func(c *alipay.Config) { c.AlipayPublicKey = "secret nonsense" },
	} {
		config := good
		change(&config)
		_, err := alipay.New(config)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "nonsense")
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("configured", "config", good)
	for _, printed := range []string{fmt.Sprintf("%v", good), fmt.Sprintf("%+v", good), fmt.Sprintf("%#v", good), log.String()} {
		require.NotContains(t, printed, "PRIVATE KEY")
	}
}

func TestKeysWithoutPEM(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, func(c *alipay.Config, _ *pspsim.Options) {
		c.PrivateKey, c.AlipayPublicKey = bare(c.PrivateKey), bare(c.AlipayPublicKey)
	})
	require.Equal(t, psp.Pending, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
}

// bare is a key as Alipay's own tool writes it.
func bare(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[1:len(lines)-1], "")
}

func TestWrongKeyMaterial(t *testing.T) {
	t.Parallel()
	other, err := otherKeys()
	require.NoError(t, err)
	t.Run("ours", func(t *testing.T) {
		t.Parallel()
		provider, simulator, _ := setup(t, func(c *alipay.Config, _ *pspsim.Options) { c.PrivateKey = other.AlipayMerchantPrivateKey })
		result := provider.Charge(t.Context(), order("order-1", 1000))
		require.Equal(t, psp.Transient, result.Verdict)
		require.Equal(t, "isv.invalid-signature", result.Code)
		require.Empty(t, simulator.Ledger())
	})
	t.Run("theirs", func(t *testing.T) {
		t.Parallel()
		provider, _, _ := setup(t, func(c *alipay.Config, _ *pspsim.Options) { c.AlipayPublicKey = other.AlipayPublicKey })
		require.Equal(t, psp.InDoubt, provider.Charge(t.Context(), order("order-1", 1000)).Verdict,
			"an answer that does not verify tells nothing")
	})
	t.Run("another app", func(t *testing.T) {
		t.Parallel()
		provider, simulator, _ := setup(t, func(c *alipay.Config, _ *pspsim.Options) { c.AppID = "2021000000000999" })
		result := provider.Charge(t.Context(), order("order-1", 1000))
		require.Equal(t, psp.Transient, result.Verdict)
		require.Equal(t, "isv.invalid-app-id", result.Code)
		require.Empty(t, simulator.Ledger())
	})
}
