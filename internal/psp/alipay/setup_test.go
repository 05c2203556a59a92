package alipay_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/alipay"
	"github.com/payonce/payonce/internal/pspsim"
)

var (
	keys      = sync.OnceValues(pspsim.NewKeys)
	otherKeys = sync.OnceValues(pspsim.NewKeys)
	// platform is Alipay's key where a test speaks for Alipay itself.
	platform = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })
)

// setup makes the adapter and the simulator that it talks to.
func setup(t *testing.T, change func(*alipay.Config, *pspsim.Options)) (*alipay.Provider, *pspsim.Simulator, *httptest.Server) {
	t.Helper()
	made, err := keys()
	require.NoError(t, err)
	options := pspsim.Options{Keys: made}
	config := alipay.Config{
		AppID: made.AlipayAppID, PrivateKey: made.AlipayMerchantPrivateKey, AlipayPublicKey: made.AlipayPublicKey,
	}
	if change != nil {
		change(&config, &options)
	}
	simulator := pspsim.New(options)
	server := httptest.NewServer(simulator.Handler())
	t.Cleanup(func() {
		simulator.Close()
		server.Close()
	})
	if config.GatewayURL == "" {
		config.GatewayURL = server.URL + "/alipay/gateway.do"
	}
	provider, err := alipay.New(config)
	require.NoError(t, err)
	return provider, simulator, server
}

// gateway speaks for Alipay with fixed answers, and keeps the requests.
type gateway struct {
	provider *alipay.Provider
	mu       sync.Mutex
	asked    []url.Values
}

func (g *gateway) requests() []url.Values {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked)
}

// newGateway answers each method with its node, signed.
func newGateway(t *testing.T, nodes map[string]string) *gateway {
	t.Helper()
	answers := map[string]string{}
	for method, node := range nodes {
		answers[method] = fmt.Sprintf(`{"%s_response":%s,"sign":"%s"}`, strings.ReplaceAll(method, ".", "_"), node, signed(t, node))
	}
	return newRawGateway(t, func(method string) string { return answers[method] })
}

func newRawGateway(t *testing.T, answer func(method string) string) *gateway {
	t.Helper()
	g := &gateway{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		g.mu.Lock()
		g.asked = append(g.asked, r.Form)
		g.mu.Unlock()
		_, _ = io.WriteString(w, answer(r.Form.Get("method")))
	}))
	t.Cleanup(server.Close)
	g.provider = newForPlatform(t, server.URL, "")
	return g
}

// newForPlatform makes an adapter that trusts platform.
func newForPlatform(t *testing.T, address, sellerID string) *alipay.Provider {
	t.Helper()
	made, err := keys()
	require.NoError(t, err)
	key, err := platform()
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(t, err)
	provider, err := alipay.New(alipay.Config{
		AppID: made.AlipayAppID, PrivateKey: made.AlipayMerchantPrivateKey, SellerID: sellerID, GatewayURL: address,
		AlipayPublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
	})
	require.NoError(t, err)
	return provider
}

// signed is RSA2 by platform.
func signed(t *testing.T, text string) string {
	t.Helper()
	key, err := platform()
	require.NoError(t, err)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(signature)
}

func cny(fen int64) money.Money { return money.Money{Amount: fen, Currency: "CNY"} }

func order(id string, fen int64) psp.ChargeRequest {
	return psp.ChargeRequest{OrderID: id, Attempt: 1, Money: cny(fen), Subject: "Tea"}
}

func trade(id string, fen int64) psp.Trade {
	return psp.Trade{OrderID: id, Attempt: 1, Money: cny(fen)}
}

func refundOf(id string, fen int64) psp.RefundRequest {
	return psp.RefundRequest{Trade: trade("order-1", 1000), RefundID: id, Money: cny(fen), Reason: "returned"}
}

func post(t *testing.T, address, body string, into any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode)
	if into != nil {
		require.NoError(t, json.NewDecoder(response.Body).Decode(into))
	}
}
