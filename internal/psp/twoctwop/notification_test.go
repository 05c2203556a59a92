package twoctwop_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/twoctwop"
	"github.com/payonce/payonce/internal/pspsim"
)

func signedBy(t *testing.T, claims, secret string) string {
	t.Helper()
	return enveloped(t, jwt.SigningMethodHS256, claims, []byte(secret))
}

func parse(t *testing.T, provider *twoctwop.Provider, body string) (psp.Notification, error) {
	t.Helper()
	return provider.ParseNotification(t.Context(), http.Header{}, []byte(body))
}

// The sample of developer.2c2p.com/docs/api-payment-response-backend. It is
// signed with the key that jwt.io shows by default.
func TestPublishedNotification(t *testing.T) {
	t.Parallel()
	made, err := keys()
	require.NoError(t, err)
	config := configOf(made, "http://127.0.0.1:9")
	config.MerchantID, config.SecretKey = "JT04", "your-256-bit-secret"
	provider, err := twoctwop.New(config)
	require.NoError(t, err)
	n, err := parse(t, provider, `{"payload":"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJtZXJjaGFudElEIjoiSlQwNCIsImludm9pY2VObyI6IjI4`+
		`MDUyMDA3NTkyMSIsImNhcmRObyI6IjQxMTExMVhYWFhYWDExMTEiLCJhbW91bnQiOiIyMzAuODciLCJjdXJyZW5jeUNvZGUiOiJUSEIiLCJ0cmFuUmVmIjoiMjg2ODgyM`+
		`SIsInJlZmVyZW5jZU5vIjoiMjc4NTcwMyIsImFwcHJvdmFsQ29kZSI6IjUzMTQ4NCIsImVjaSI6IjA1IiwidHJhbnNhY3Rpb25EYXRlVGltZSI6IjIwMjAwNTI4MDgwNTA`+
		`4IiwicmVzcENvZGUiOiIwMDAwIiwicmVzcERlc2MiOiJTdWNjZXNzIn0.QdjSI_dUbiRularwEIFuYROE_svc3Xkm-t58X-VnPxI"}`)
	require.NoError(t, err)
	require.Equal(t, psp.Notification{
		Event: psp.EventPaid, Key: "webhook:2c2p:280520075921:2868821", OrderID: "280520075921", TradeNo: "2868821",
		Money: money.Money{Amount: 23087, Currency: "THB"}, Code: "0000",
	}, n)
}

// The sample of developer.2c2p.com/docs/json-web-tokens-jwt is a request for a
// payment token, signed with the same secret: no notification.
func TestARequestIsNoNotification(t *testing.T) {
	t.Parallel()
	made, err := keys()
	require.NoError(t, err)
	config := configOf(made, "http://127.0.0.1:9")
	config.SecretKey = "1F4EDB965BBB3094F791A83750FBDCDA3852131CB5218E21E4F42929A1975E60"
	provider, err := twoctwop.New(config)
	require.NoError(t, err)
	published := `{"payload":"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJtZXJjaGFudElEIjoiSlQwMSIsImludm9pY2VObyI6IjE1MjM5NTM2NjEiLC` +
		`JkZXNjcmlwdGlvbiI6Iml0ZW0gMSIsImFtb3VudCI6MTAwMCwiY3VycmVuY3lDb2RlIjoiU0dEIn0.ElmhOULUdK63FnriSs2XyhH1LxULoTVIopTUuQ77DvA"}`
	_, err = parse(t, provider, published)
	require.ErrorContains(t, err, "neither tranRef nor referenceNo", "it verifies, and says nothing of a payment")
	_, err = parse(t, provider, strings.Replace(published, "ElmhO", "ElmhP", 1))
	require.ErrorContains(t, err, "does not verify")
}

const paidClaims = `{"merchantID":"JT01","invoiceNo":"order1","amount":"10.00","currencyCode":"SGD","tranRef":"77","referenceNo":"88","respCode":"0000"}`

func TestNotificationEvents(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	for code, want := range map[string]struct {
		event psp.Event
		key   string
	}{
		"0000": {psp.EventPaid, "webhook:2c2p:order1:77"},
		"4110": {psp.EventPaid, "webhook:2c2p:order1:77:4110"},
		"0001": {psp.EventWaiting, "webhook:2c2p:order1:77:0001"},
		"2001": {psp.EventWaiting, "webhook:2c2p:order1:77:2001"},
		"0003": {psp.EventClosed, "webhook:2c2p:order1:77:0003"},
		"5009": {psp.EventClosed, "webhook:2c2p:order1:77:5009"},
		"4005": {psp.EventFailed, "webhook:2c2p:order1:77:4005"},
		"5010": {psp.EventFailed, "webhook:2c2p:order1:77:5010"},
	} {
		n, err := parse(t, provider, signed(t, strings.Replace(paidClaims, "0000", code, 1)))
		require.NoError(t, err, code)
		require.Equal(t, psp.Notification{
			Event: want.event, Key: want.key, OrderID: "order1", TradeNo: "77", Money: sgd(1000), Code: code,
		}, n)
	}
	n, err := parse(t, provider, signed(t, strings.Replace(paidClaims, `"tranRef":"77"`, `"tranRef":""`, 1)))
	require.NoError(t, err)
	require.Equal(t, "webhook:2c2p:order1:88", n.Key, "the card host's number where 2C2P has none of its own")
	for _, code := range []string{"7777", "", "0999", "2002", "4120", "5015", "5016", "5017", "9015", "42", "00"} {
		_, err := parse(t, provider, signed(t, strings.Replace(paidClaims, "0000", code, 1)))
		require.ErrorContains(t, err, "no event", code)
	}
}

func TestForgedAndForeignNotifications(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	other, err := otherKeys()
	require.NoError(t, err)
	made, err := keys()
	require.NoError(t, err)
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	good := signed(t, paidClaims)
	_, err = parse(t, provider, good)
	require.NoError(t, err)
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(good, `{"payload":"`), `"}`), ".")
	more := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(paidClaims, "10.00", "0.01", 1)))
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	change := func(old, changed string) string {
		require.Contains(t, paidClaims, old)
		return signed(t, strings.Replace(paidClaims, old, changed, 1))
	}
	for name, body := range map[string]string{
		"another secret":        signedBy(t, paidClaims, other.TwoCTwoPSecretKey),
		"no algorithm":          `{"payload":"` + none + "." + parts[1] + `."}`,
		"HS512":                 enveloped(t, jwt.SigningMethodHS512, paidClaims, []byte(made.TwoCTwoPSecretKey)),
		"RS256":                 enveloped(t, jwt.SigningMethodRS256, paidClaims, foreign),
		"HS256 by a public key": signedBy(t, paidClaims, made.TwoCTwoPPublicKey),
		"a changed amount":      `{"payload":"` + parts[0] + "." + more + "." + parts[2] + `"}`,
		"another merchant":      change(`"JT01"`, `"JT02"`),
		"no merchant":           change(`"merchantID":"JT01",`, ``),
		"no invoice":            change(`"order1"`, `""`),
		"no reference":          change(`"tranRef":"77","referenceNo":"88"`, `"tranRef":""`),
		"no amount":             change(`"amount":"10.00",`, ``),
		"nothing":               change(`"10.00"`, `"0.00"`),
		"below nothing":         change(`"10.00"`, `"-1.00"`),
		"too many decimals":     change(`"10.00"`, `"10.001"`),
		"no currency":           change(`"SGD"`, `""`),
		"currency by number":    change(`"SGD"`, `"702"`),
		"no code":               change(`,"respCode":"0000"`, ``),
		"no payload":            `{"payload":""}`,
		"unsigned":              paidClaims,
		"no JSON":               "payload=" + parts[0],
		"empty":                 "",
	} {
		_, err := parse(t, provider, body)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), made.TwoCTwoPSecretKey)
	}
}

// Whatever the simulator sends is read, and is the same event each time.
func TestNotificationsOfTheSimulator(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 10)
	inbox := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
	}))
	t.Cleanup(inbox.Close)
	provider, _, server := setup(t, func(c *twoctwop.Config, o *pspsim.Options) {
		o.Quiet, c.NotifyURL = true, inbox.URL
	})
	provider.Charge(t.Context(), order("order1", 1000))
	seen := map[string]bool{}
	for event, want := range map[string]psp.Event{
		"paid": psp.EventPaid, "waiting": psp.EventWaiting, "failed": psp.EventFailed, "closed": psp.EventClosed,
	} {
		request, err := json.Marshal(map[string]any{"provider": "2c2p", "out_trade_no": "order1", "event": event, "times": 2})
		require.NoError(t, err)
		post(t, server.URL+"/notify", string(request), nil)
		first, err := parse(t, provider, <-bodies)
		require.NoError(t, err)
		second, err := parse(t, provider, <-bodies)
		require.NoError(t, err)
		require.Equal(t, first, second)
		require.Equal(t, want, first.Event)
		require.Equal(t, "order1", first.OrderID)
		require.Equal(t, sgd(1000), first.Money)
		seen[first.Key] = true
	}
	require.Len(t, seen, 4)
	told := provider.Query(t.Context(), trade("order1", 1000))
	require.True(t, seen["webhook:2c2p:order1:"+told.TradeNo], "the payment's reference is the same everywhere")
}

func TestAcknowledgement(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	require.Equal(t, psp.Acknowledgement{Status: 200, ContentType: "text/plain", Body: []byte("OK")}, provider.Acknowledge())
	require.Equal(t, "2c2p", provider.Name())
}
