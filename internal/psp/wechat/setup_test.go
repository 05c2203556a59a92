package wechat_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/wechat"
	"github.com/payonce/payonce/internal/pspsim"
)

var (
	keys      = sync.OnceValues(pspsim.NewKeys)
	otherKeys = sync.OnceValues(pspsim.NewKeys)
	// platform is WeChat Pay's key where a test speaks for WeChat Pay itself.
	platform = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })
)

const (
	platformKeyID = "PUB_KEY_ID_0114232134912410000000000000"
	notifyURL     = "https://shop.example/webhooks/wechat"
)

func madeKeys(t *testing.T) *pspsim.Keys {
	t.Helper()
	made, err := keys()
	require.NoError(t, err)
	return made
}

// simulatedConfig is what the simulator's merchant is configured with.
func simulatedConfig(t *testing.T) wechat.Config {
	t.Helper()
	made := madeKeys(t)
	return wechat.Config{
		MchID: made.WeChatMchID, AppID: made.WeChatAppID, APIv3Key: made.WeChatAPIv3Key,
		PrivateKey: made.WeChatMerchantPrivateKey, CertSerial: made.WeChatMerchantSerial,
		PublicKey: made.WeChatPublicKey, PublicKeyID: made.WeChatPublicKeyID, NotifyURL: notifyURL,
	}
}

// setup makes the adapter and the simulator that it talks to. Nobody is
// notified unless a test says so.
func setup(t *testing.T, change func(*wechat.Config, *pspsim.Options)) (*wechat.Provider, *pspsim.Simulator, *httptest.Server) {
	t.Helper()
	options := pspsim.Options{Keys: madeKeys(t), Quiet: true}
	config := simulatedConfig(t)
	if change != nil {
		change(&config, &options)
	}
	simulator := pspsim.New(options)
	server := httptest.NewServer(simulator.Handler())
	t.Cleanup(func() {
		simulator.Close()
		server.Close()
	})
	if config.BaseURL == "" {
		config.BaseURL = server.URL + "/wechat"
	}
	provider, err := wechat.New(config)
	require.NoError(t, err)
	return provider, simulator, server
}

// told is an answer as WeChat Pay gives it.
type told struct {
	status int
	body   string
	// forge changes the signed answer's headers.
	forge func(http.Header)
}

// asked is a request as WeChat Pay gets it.
type asked struct {
	method, path string
	host         string
	header       http.Header
	body         string
}

// server speaks for WeChat Pay with fixed answers, signed, and keeps the
// requests.
type server struct {
	provider *wechat.Provider
	address  string
	mu       sync.Mutex
	got      []asked
}

func (s *server) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// newServer answers each call by method and the start of its path.
func newServer(t *testing.T, answers map[string]told) *server {
	t.Helper()
	s := &server{}
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		call := asked{method: r.Method, path: r.URL.RequestURI(), host: r.Host, header: r.Header, body: string(body)}
		s.mu.Lock()
		s.got = append(s.got, call)
		s.mu.Unlock()
		for pattern, answer := range answers {
			method, path, _ := strings.Cut(pattern, " ")
			if r.Method == method && strings.HasPrefix(r.URL.Path, path) {
				header := signedHeader(t, answer.body, time.Now())
				if answer.forge != nil {
					answer.forge(header)
				}
				for name, values := range header {
					w.Header()[name] = values
				}
				w.WriteHeader(answer.status)
				_, _ = io.WriteString(w, answer.body)
				return
			}
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(listening.Close)
	s.address = listening.URL
	s.provider = newForPlatform(t, listening.URL)
	return s
}

// newForPlatform makes an adapter that trusts platform.
func newForPlatform(t *testing.T, address string) *wechat.Provider {
	t.Helper()
	config := simulatedConfig(t)
	config.BaseURL, config.PublicKeyID = address, platformKeyID
	key, err := platform()
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(t, err)
	config.PublicKey = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	provider, err := wechat.New(config)
	require.NoError(t, err)
	return provider
}

// signedHeader is platform's signature over a body at a time.
func signedHeader(t *testing.T, body string, at time.Time) http.Header {
	t.Helper()
	key, err := platform()
	require.NoError(t, err)
	timestamp, nonce := strconv.FormatInt(at.Unix(), 10), "d824f2e086d3c1df967785d13fcd22ef"
	digest := sha256.Sum256([]byte(timestamp + "\n" + nonce + "\n" + body + "\n"))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	require.NoError(t, err)
	header := http.Header{}
	header.Set("Wechatpay-Timestamp", timestamp)
	header.Set("Wechatpay-Nonce", nonce)
	header.Set("Wechatpay-Signature", base64.StdEncoding.EncodeToString(signature))
	header.Set("Wechatpay-Serial", platformKeyID)
	header.Set("Content-Type", "application/json")
	return header
}

func withoutSignature(header http.Header) {
	for name := range header {
		if strings.HasPrefix(name, "Wechatpay-") {
			header.Del(name)
		}
	}
}

func problem(status int, code string) told {
	return told{status: status, body: `{"code":"` + code + `","message":"told"}`}
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
