package twoctwop_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/twoctwop"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestConfigurationErrorsAndSecrets(t *testing.T) {
	t.Parallel()
	made, err := keys()
	require.NoError(t, err)
	good := configOf(made, "http://127.0.0.1:9")
	for says, change := range map[string]func(*twoctwop.Config){
		"merchant id is missing":           func(c *twoctwop.Config) { c.MerchantID = "" },
		"secret key is missing":            func(c *twoctwop.Config) { c.SecretKey = "" },
		"private key is missing":           func(c *twoctwop.Config) { c.PrivateKey = "" },
		"2C2P public key is missing":       func(c *twoctwop.Config) { c.PublicKey = "" },
		"private key is not an RSA":        func(c *twoctwop.Config) { c.PrivateKey = "secret nonsense" },
		"public key is not an RSA key":     func(c *twoctwop.Config) { c.PublicKey = "secret nonsense" },
		"base address is not one":          func(c *twoctwop.Config) { c.BaseURL = "payment/4.3" },
		"maintenance address is not one":   func(c *twoctwop.Config) { c.MaintenanceURL = "action" },
		"give both or neither":             func(c *twoctwop.Config) { c.MaintenanceURL = "" },
		"maintenance address go together:": func(c *twoctwop.Config) { c.BaseURL = "" },
	} {
		config := good
		change(&config)
		_, err := twoctwop.New(config)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "nonsense")
	}
	good.BaseURL, good.MaintenanceURL = "", ""
	_, err = twoctwop.New(good)
	require.NoError(t, err, "production")
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("configured", "config", good)
	for _, printed := range []string{fmt.Sprintf("%v", good), fmt.Sprintf("%+v", good), fmt.Sprintf("%#v", good), log.String()} {
		require.Contains(t, printed, good.MerchantID)
		require.NotContains(t, printed, "PRIVATE KEY")
		require.NotContains(t, printed, good.SecretKey)
	}
}

// 2C2P's portal hands its key out as a certificate; tools write PKCS#1.
func TestKeysInOtherForms(t *testing.T) {
	t.Parallel()
	made, err := keys()
	require.NoError(t, err)
	provider, _, _ := setup(t, func(c *twoctwop.Config, _ *pspsim.Options) {
		block, _ := pem.Decode([]byte(made.TwoCTwoPPublicKey))
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		require.NoError(t, err)
		private := private(t, made.TwoCTwoPMerchantPrivateKey)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
		certificate, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
		require.NoError(t, err)
		c.PublicKey = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
		c.PrivateKey = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}))
	})
	provider.Charge(t.Context(), order("order1", 1000))
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict)
}

func TestWrongKeyMaterial(t *testing.T) {
	t.Parallel()
	other, err := otherKeys()
	require.NoError(t, err)
	for name, change := range map[string]func(*twoctwop.Config){
		"secret":   func(c *twoctwop.Config) { c.SecretKey = other.TwoCTwoPSecretKey },
		"merchant": func(c *twoctwop.Config) { c.MerchantID = "JT99" },
	} {
		provider, simulator, _ := setup(t, func(c *twoctwop.Config, _ *pspsim.Options) { change(c) })
		result := provider.Charge(t.Context(), order("order1", 1000))
		require.Equal(t, psp.Transient, result.Verdict, name)
		require.NotEmpty(t, result.Code)
		require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order1", 1000)).Verdict, name)
		require.Empty(t, simulator.Ledger())
	}
	for name, test := range map[string]struct {
		change func(*twoctwop.Config)
		refund psp.Verdict
	}{
		"the other side's": {func(c *twoctwop.Config) { c.PublicKey = other.TwoCTwoPPublicKey }, psp.InDoubt},
		"our own":          {func(c *twoctwop.Config) { c.PrivateKey = other.TwoCTwoPMerchantPrivateKey }, psp.InDoubt},
		"the merchant":     {func(c *twoctwop.Config) { c.MerchantID = "JT99" }, psp.Transient},
	} {
		provider, simulator, server := setup(t, func(c *twoctwop.Config, _ *pspsim.Options) { test.change(c) })
		made, err := keys()
		require.NoError(t, err)
		paying, err := twoctwop.New(configOf(made, server.URL))
		require.NoError(t, err)
		paying.Charge(t.Context(), order("order1", 1000))
		require.Equal(t, test.refund, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict, name)
		require.Len(t, simulator.Ledger(), 1)
	}
}
