package providers_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/pspsim"
)

var madeKeys = sync.OnceValues(pspsim.NewKeys)

func simulatorKeys(t *testing.T) *pspsim.Keys {
	t.Helper()
	keys, err := madeKeys()
	require.NoError(t, err)
	return keys
}

// configurations are the settings that each provider needs, and none that it
// does not.
func configurations(t *testing.T) map[string]map[string]string {
	t.Helper()
	keys := simulatorKeys(t)
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	return map[string]map[string]string{
		"alipay": {
			"PAYONCE_ALIPAY_APP_ID": "2021", "PAYONCE_ALIPAY_PRIVATE_KEY_FILE": file(keys.AlipayMerchantPrivateKey),
			"PAYONCE_ALIPAY_PUBLIC_KEY": keys.AlipayPublicKey,
		},
		"wechat": {
			"PAYONCE_WECHAT_MCH_ID": keys.WeChatMchID, "PAYONCE_WECHAT_APP_ID": keys.WeChatAppID,
			"PAYONCE_WECHAT_API_V3_KEY_FILE":  file(keys.WeChatAPIv3Key + "\n"),
			"PAYONCE_WECHAT_PRIVATE_KEY_FILE": file(keys.WeChatMerchantPrivateKey),
			"PAYONCE_WECHAT_CERT_SERIAL":      keys.WeChatMerchantSerial, "PAYONCE_WECHAT_PUBLIC_KEY": keys.WeChatPublicKey,
			"PAYONCE_WECHAT_PUBLIC_KEY_ID": keys.WeChatPublicKeyID,
			"PAYONCE_WECHAT_NOTIFY_URL":    "https://pay.example.com/webhooks/wechat",
		},
		"2c2p": {
			"PAYONCE_2C2P_MERCHANT_ID": keys.TwoCTwoPMerchantID, "PAYONCE_2C2P_SECRET_KEY_FILE": file(keys.TwoCTwoPSecretKey + "\n"),
			"PAYONCE_2C2P_PRIVATE_KEY_FILE": file(keys.TwoCTwoPMerchantPrivateKey), "PAYONCE_2C2P_PUBLIC_KEY": keys.TwoCTwoPPublicKey,
		},
		"stripe": {
			"PAYONCE_STRIPE_SECRET_KEY_FILE": file(keys.StripeSecretKey + "\n"),
			"PAYONCE_STRIPE_WEBHOOK_SECRET":  keys.StripeWebhookSecret,
		},
	}
}

func environment(variables ...map[string]string) providers.Environment {
	return func(name string) string {
		for _, some := range variables {
			if some[name] != "" {
				return some[name]
			}
		}
		return ""
	}
}

func TestConfigured(t *testing.T) {
	t.Parallel()
	_, err := providers.Configured(environment(), nil)
	require.ErrorContains(t, err, "no payment provider is configured")
	var everything []map[string]string
	for name, complete := range configurations(t) {
		everything = append(everything, complete)
		one, err := providers.Configured(environment(complete), nil)
		require.NoError(t, err)
		require.Len(t, one, 1)
		require.Equal(t, name, one[0].Name())
		for variable := range complete {
			fewer := maps.Clone(complete)
			delete(fewer, variable)
			_, err := providers.Configured(environment(fewer), nil)
			require.Error(t, err, "%s is needed", variable)
		}
	}
	all, err := providers.Configured(environment(everything...), nil)
	require.NoError(t, err)
	require.Len(t, all, len(everything))
	simulated, err := providers.Simulated(simulatorKeys(t), "http://127.0.0.1:9", "http://127.0.0.1:9", nil)
	require.NoError(t, err)
	require.Len(t, everything, len(simulated), "a provider's settings are not in the table")
}

// Every secret can be given in its variable or in a file, never in both.
func TestEverySecretOfAProviderTakesAFile(t *testing.T) {
	t.Parallel()
	secrets := regexp.MustCompile(`_(KEY|SECRET)(_FILE)?$`)
	tried := 0
	for name, complete := range configurations(t) {
		for variable, value := range complete {
			if !secrets.MatchString(variable) {
				continue
			}
			tried++
			bare, isFile := strings.CutSuffix(variable, "_FILE")
			other := maps.Clone(complete)
			delete(other, variable)
			if isFile {
				content, err := os.ReadFile(value)
				require.NoError(t, err)
				other[bare] = strings.TrimSpace(string(content))
			} else {
				path := filepath.Join(t.TempDir(), "secret")
				require.NoError(t, os.WriteFile(path, []byte(value+"\n"), 0o600))
				other[bare+"_FILE"] = path
			}
			_, err := providers.Configured(environment(other), nil)
			require.NoError(t, err, "%s: %s the other way", name, variable)
			other[variable] = value
			_, err = providers.Configured(environment(other), nil)
			require.ErrorContains(t, err, bare+" and "+bare+"_FILE are both set")
		}
	}
	require.Equal(t, 10, tried)
}

// What a configuration lacks is named, and the file besides the variable.
func TestConfiguredNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for says, variables := range map[string]map[string]string{
		"PAYONCE_ALIPAY_PUBLIC_KEY_FILE":  {"PAYONCE_ALIPAY_APP_ID": "2021"},
		"PAYONCE_WECHAT_API_V3_KEY_FILE":  {"PAYONCE_WECHAT_MCH_ID": "1900000001"},
		"PAYONCE_STRIPE_WEBHOOK_SECRET":   {"PAYONCE_STRIPE_SECRET_KEY": "sk_test_1"},
		"PAYONCE_WECHAT_PRIVATE_KEY_FILE": {"PAYONCE_WECHAT_MCH_ID": "1900000001", "PAYONCE_WECHAT_PRIVATE_KEY_FILE": "nowhere"},
	} {
		_, err := providers.Configured(environment(variables), nil)
		require.ErrorContains(t, err, says)
	}
}

func TestSimulatedProvidersAreAllThereAre(t *testing.T) {
	t.Parallel()
	all, err := providers.Simulated(simulatorKeys(t), "http://127.0.0.1:9", "http://127.0.0.1:9", nil)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, provider := range all {
		require.False(t, names[provider.Name()], "registered twice")
		names[provider.Name()] = true
	}
	folders, err := filepath.Glob("../psp/*/classify.go")
	require.NoError(t, err)
	require.Len(t, names, len(folders), "a folder below internal/psp is not registered")
}

// Whoever stands between us and a provider, without a certificate for its name,
// is told nothing and believed nothing: the money is in doubt at most.
func TestAStrangersCertificateIsRefused(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	stranger := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		_, _ = io.WriteString(w, "{}")
	}))
	stranger.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	stranger.StartTLS()
	t.Cleanup(stranger.Close)
	all, err := providers.Simulated(simulatorKeys(t), stranger.URL, "http://127.0.0.1:9", nil)
	require.NoError(t, err)
	for _, provider := range all {
		currency := "CNY"
		if provider.Name() == "2c2p" {
			currency = "THB"
		}
		result := provider.Charge(t.Context(), psp.ChargeRequest{
			OrderID: "order1", Attempt: 1, Money: money.Money{Amount: 1000, Currency: currency}, Subject: "Tea", Method: "",
		})
		require.Contains(t, []psp.Verdict{psp.InDoubt, psp.Transient}, result.Verdict, provider.Name())
		var untrusted *tls.CertificateVerificationError
		require.ErrorAs(t, result.Err, &untrusted, provider.Name())
	}
	require.Zero(t, reached.Load())
}
