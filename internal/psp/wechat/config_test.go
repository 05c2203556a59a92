package wechat_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/wechat"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestConfigurationErrorsAndSecrets(t *testing.T) {
	t.Parallel()
	good := simulatedConfig(t)
	_, err := wechat.New(good)
	require.NoError(t, err)
	for says, change := range map[string]func(*wechat.Config){
		"merchant id is missing":              func(c *wechat.Config) { c.MchID = "" },
		"app id is missing":                   func(c *wechat.Config) { c.AppID = "" },
		"APIv3 key is missing":                func(c *wechat.Config) { c.APIv3Key = "" },
		"APIv3 key has 15 bytes":              func(c *wechat.Config) { c.APIv3Key = "secret nonsense" },
		"private key is missing":              func(c *wechat.Config) { c.PrivateKey = "" },
		"private key is not an RSA key":       func(c *wechat.Config) { c.PrivateKey = "secret nonsense" },
		"certificate serial number is miss":   func(c *wechat.Config) { c.CertSerial = "" },
		"WeChat Pay public key is missing":    func(c *wechat.Config) { c.PublicKey = "" },
		"WeChat Pay public key is not an RSA": func(c *wechat.Config) { c.PublicKey = "secret nonsense" },
		"public key id is missing":            func(c *wechat.Config) { c.PublicKeyID = "" },
		"notify URL is missing":               func(c *wechat.Config) { c.NotifyURL = "" },
		"notify URL is not an http":           func(c *wechat.Config) { c.NotifyURL += "?nonsense=1" },
		"base URL is not an address":          func(c *wechat.Config) { c.BaseURL = "api.mch.weixin.qq.com" },
	} {
		config := good
		change(&config)
		_, err := wechat.New(config)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "nonsense")
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("configured", "config", good)
	for _, printed := range []string{fmt.Sprintf("%v", good), fmt.Sprintf("%+v", good), fmt.Sprintf("%#v", good), log.String()} {
		require.NotContains(t, printed, "PRIVATE KEY")
		require.NotContains(t, printed, good.APIv3Key)
	}
}

func TestWrongKeyMaterial(t *testing.T) {
	t.Parallel()
	other, err := otherKeys()
	require.NoError(t, err)
	t.Run("ours", func(t *testing.T) {
		t.Parallel()
		provider, simulator, _ := setup(t, func(c *wechat.Config, _ *pspsim.Options) { c.PrivateKey = other.WeChatMerchantPrivateKey })
		result := provider.Charge(t.Context(), order("order-1", 1000))
		require.Equal(t, psp.Transient, result.Verdict)
		require.Equal(t, "SIGN_ERROR", result.Code)
		require.Empty(t, simulator.Ledger())
		require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order-1", 1000)).Verdict)
	})
	t.Run("theirs", func(t *testing.T) {
		t.Parallel()
		provider, _, _ := setup(t, func(c *wechat.Config, _ *pspsim.Options) { c.PublicKey = other.WeChatPublicKey })
		require.Equal(t, psp.InDoubt, provider.Charge(t.Context(), order("order-1", 1000)).Verdict,
			"an answer that does not verify tells nothing")
		require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order-2", 1000)).Verdict,
			"nor does a refusal")
	})
	t.Run("their key's id", func(t *testing.T) {
		t.Parallel()
		provider, _, _ := setup(t, func(c *wechat.Config, _ *pspsim.Options) { c.PublicKeyID = other.WeChatPublicKeyID })
		require.Equal(t, psp.InDoubt, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
	})
	t.Run("another app", func(t *testing.T) {
		t.Parallel()
		provider, simulator, _ := setup(t, func(c *wechat.Config, _ *pspsim.Options) { c.AppID = "wx0000000000000009" })
		result := provider.Charge(t.Context(), order("order-1", 1000))
		require.Equal(t, psp.Transient, result.Verdict)
		require.Equal(t, "APPID_MCHID_NOT_MATCH", result.Code)
		require.Empty(t, simulator.Ledger())
	})
}

// The requests go to the base URL and nowhere else, signed as if there were no
// prefix.
func TestBaseURL(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string]told{
		"POST /behind/proxy/v3/pay/transactions/native": {status: http.StatusOK, body: `{"code_url":"weixin://1"}`},
	})
	provider := newForPlatform(t, s.address+"/behind/proxy/")
	result := provider.Charge(t.Context(), order("order|1*", 1))
	require.Equal(t, psp.Pending, result.Verdict, "%+v", result)
	require.Len(t, s.requests(), 1)
	require.Equal(t, strings.TrimPrefix(s.address, "http://"), s.requests()[0].host)
	provider.Query(t.Context(), trade("order|1*", 1))
	require.Equal(t, "/behind/proxy/v3/pay/transactions/out-trade-no/order%7C1%2A?mchid="+madeKeys(t).WeChatMchID,
		s.requests()[1].path)
}
