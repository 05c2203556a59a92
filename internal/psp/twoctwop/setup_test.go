package twoctwop_test

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/twoctwop"
	"github.com/payonce/payonce/internal/pspsim"
)

var (
	keys      = sync.OnceValues(pspsim.NewKeys)
	otherKeys = sync.OnceValues(pspsim.NewKeys)
)

func configOf(made *pspsim.Keys, address string) twoctwop.Config {
	return twoctwop.Config{
		MerchantID: made.TwoCTwoPMerchantID, SecretKey: made.TwoCTwoPSecretKey,
		PrivateKey: made.TwoCTwoPMerchantPrivateKey, PublicKey: made.TwoCTwoPPublicKey,
		BaseURL: address + "/2c2p", MaintenanceURL: address + "/2c2p/PaymentAction/2.0/action",
	}
}

// setup makes the adapter and the simulator that it talks to.
func setup(t *testing.T, change func(*twoctwop.Config, *pspsim.Options)) (*twoctwop.Provider, *pspsim.Simulator, *httptest.Server) {
	t.Helper()
	made, err := keys()
	require.NoError(t, err)
	options := pspsim.Options{Keys: made}
	server := httptest.NewUnstartedServer(nil)
	config := configOf(made, "http://"+server.Listener.Addr().String())
	if change != nil {
		change(&config, &options)
	}
	simulator := pspsim.New(options)
	server.Config.Handler = simulator.Handler()
	server.Start()
	t.Cleanup(func() {
		simulator.Close()
		server.Close()
	})
	provider, err := twoctwop.New(config)
	require.NoError(t, err)
	return provider, simulator, server
}

// speaking makes an adapter for which a test speaks as 2C2P: answer gets the
// path that was asked.
func speaking(t *testing.T, answer func(path string) string) *twoctwop.Provider {
	t.Helper()
	made, err := keys()
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answer(r.URL.Path))
	}))
	t.Cleanup(server.Close)
	provider, err := twoctwop.New(configOf(made, server.URL))
	require.NoError(t, err)
	return provider
}

// signed is a token in its envelope, signed as 2C2P signs for our merchant.
func signed(t *testing.T, claims string) string {
	t.Helper()
	made, err := keys()
	require.NoError(t, err)
	return enveloped(t, jwt.SigningMethodHS256, claims, []byte(made.TwoCTwoPSecretKey))
}

func enveloped(t *testing.T, method jwt.SigningMethod, claims string, key any) string {
	t.Helper()
	var told jwt.MapClaims
	decoder := json.NewDecoder(strings.NewReader(claims))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&told), claims)
	token, err := jwt.NewWithClaims(method, told).SignedString(key)
	require.NoError(t, err)
	return `{"payload":"` + token + `"}`
}

func private(t *testing.T, text string) *rsa.PrivateKey {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	require.NotNil(t, block)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	return key.(*rsa.PrivateKey)
}

// platform is 2C2P's key where a test speaks for 2C2P in payment maintenance.
var platform = sync.OnceValues(otherKeys)

// speakingXML makes an adapter that trusts platform, and answers payment
// maintenance with text, sealed.
func speakingXML(t *testing.T, text func() string) *twoctwop.Provider {
	t.Helper()
	return speakingSealed(t, jose.PS256, jose.RSA_OAEP, jose.A256GCM, text)
}

func speakingSealed(
	t *testing.T, sign jose.SignatureAlgorithm, key jose.KeyAlgorithm, content jose.ContentEncryption, text func() string,
) *twoctwop.Provider {
	t.Helper()
	made, err := keys()
	require.NoError(t, err)
	other, err := platform()
	require.NoError(t, err)
	theirs := private(t, other.TwoCTwoPMerchantPrivateKey)
	encrypter, err := jose.NewEncrypter(content,
		jose.Recipient{Algorithm: key, Key: &private(t, made.TwoCTwoPMerchantPrivateKey).PublicKey}, nil)
	require.NoError(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: sign, Key: theirs}, nil)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		inner, _ := encrypter.Encrypt([]byte(text()))
		compact, _ := inner.CompactSerialize()
		outer, _ := signer.Sign([]byte(compact))
		body, _ := outer.CompactSerialize()
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	public, err := x509.MarshalPKIXPublicKey(&theirs.PublicKey)
	require.NoError(t, err)
	config := configOf(made, server.URL)
	config.PublicKey = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	provider, err := twoctwop.New(config)
	require.NoError(t, err)
	return provider
}

func sgd(cents int64) money.Money { return money.Money{Amount: cents, Currency: "SGD"} }

func order(id string, cents int64) psp.ChargeRequest {
	return psp.ChargeRequest{OrderID: id, Attempt: 1, Money: sgd(cents), Subject: "Tea"}
}

func trade(id string, cents int64) psp.Trade {
	return psp.Trade{OrderID: id, Attempt: 1, Money: sgd(cents)}
}

func refundOf(id string, cents int64) psp.RefundRequest {
	return psp.RefundRequest{Trade: trade("order1", 1000), RefundID: id, Money: sgd(cents), Reason: "returned"}
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
