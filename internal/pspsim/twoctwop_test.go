package pspsim_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pspsim"
)

const (
	tokenPath   = "/2c2p/payment/4.3/paymentToken"
	inquiryPath = "/2c2p/payment/4.3/paymentInquiry"
)

// claims are the payload of a 2C2P token.
type claims map[string]any

func (f *fixture) invoice(number string) claims {
	return claims{
		"merchantID": f.keys.TwoCTwoPMerchantID, "invoiceNo": number, "description": "Tea", "amount": json.Number("10.00"),
		"currencyCode": "SGD", "idempotencyID": number + "-1",
	}
}

func (c claims) with(name string, value any) claims {
	changed := maps.Clone(c)
	if value == nil {
		delete(changed, name)
	} else {
		changed[name] = value
	}
	return changed
}

func signHS256(t *testing.T, c claims, secret string) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims(c)).SignedString([]byte(secret))
	require.NoError(t, err)
	return token
}

// twoctwop sends claims and reads the answer, whose signature has to verify.
func (f *fixture) twoctwop(path string, c claims) claims {
	f.t.Helper()
	body, err := json.Marshal(map[string]string{"payload": signHS256(f.t, c, f.keys.TwoCTwoPSecretKey)})
	require.NoError(f.t, err)
	status, header, answer := f.send(http.MethodPost, path, nil, string(body))
	require.Equal(f.t, http.StatusOK, status)
	require.Contains(f.t, header.Get("Content-Type"), "application/json")
	return f.opened(answer)
}

func (f *fixture) opened(body string) claims {
	f.t.Helper()
	var envelope struct{ Payload string }
	require.NoError(f.t, json.Unmarshal([]byte(body), &envelope), body)
	told := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(envelope.Payload, told, func(*jwt.Token) (any, error) {
		return []byte(f.keys.TwoCTwoPSecretKey), nil
	}, jwt.WithValidMethods([]string{"HS256"}), jwt.WithJSONNumber())
	require.NoError(f.t, err, body)
	return claims(told)
}

func (f *fixture) inquire(number string) claims {
	f.t.Helper()
	return f.twoctwop(inquiryPath, claims{"merchantID": f.keys.TwoCTwoPMerchantID, "invoiceNo": number, "locale": "en"})
}

// The sample of developer.2c2p.com/docs/json-web-tokens-jwt, with its key.
const (
	publishedSecret = "1F4EDB965BBB3094F791A83750FBDCDA3852131CB5218E21E4F42929A1975E60"
	publishedToken  = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJtZXJjaGFudElEIjoiSlQwMSIsImludm9pY2VObyI6IjE1MjM5NTM2NjEiLC" +
		"JkZXNjcmlwdGlvbiI6Iml0ZW0gMSIsImFtb3VudCI6MTAwMCwiY3VycmVuY3lDb2RlIjoiU0dEIn0.ElmhOULUdK63FnriSs2XyhH1LxULoTVIopTUuQ77DvA"
)

func TestTwoCTwoPTakesThePublishedSample(t *testing.T) {
	t.Parallel()
	keys := *keysOf(t, ownKeys)
	keys.TwoCTwoPSecretKey = publishedSecret
	sim := pspsim.New(pspsim.Options{Keys: &keys})
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() {
		sim.Close()
		server.Close()
	})
	f := &fixture{t: t, keys: &keys, sim: sim, url: server.URL}
	_, _, answer := f.send(http.MethodPost, tokenPath, nil, `{"payload":"`+publishedToken+`"}`)
	require.Equal(t, "0000", f.opened(answer)["respCode"])
	require.Equal(t, []string{"charge 100000 SGD"}, f.moved("2c2p", "1523953661"))
}

func TestTwoCTwoPPayment(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{Quiet: true})
	require.Equal(t, "2002", f.inquire("order1")["respCode"])
	first := f.twoctwop(tokenPath, f.invoice("order1"))
	require.Equal(t, "0000", first["respCode"])
	require.Contains(t, first["webPaymentUrl"], first["paymentToken"])
	require.Equal(t, first, f.twoctwop(tokenPath, f.invoice("order1")), "the same request is the same token")
	for name, other := range map[string]claims{
		"another amount":     f.invoice("order1").with("amount", json.Number("10.01")),
		"another retry id":   f.invoice("order1").with("idempotencyID", "order1-2"),
		"without a retry id": f.invoice("order1").with("idempotencyID", nil),
	} {
		require.Equal(t, "9015", f.twoctwop(tokenPath, other)["respCode"], name)
	}
	require.Equal(t, []string{"charge 1000 SGD"}, f.moved("2c2p", "order1"))

	told := f.inquire("order1")
	require.Equal(t, "0000", told["respCode"])
	require.Equal(t, json.Number("10.00"), told["amount"])
	require.Equal(t, "SGD", told["currencyCode"])
	require.Equal(t, "order1", told["invoiceNo"])
	require.Regexp(t, `^[0-9]{28}$`, told["tranRef"])
	require.Regexp(t, `^[0-9]{14}$`, told["transactionDateTime"])
	require.Equal(t, 5, f.sim.Requests()["2c2p/charge"])
}

func TestTwoCTwoPWithoutARetryID(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{Quiet: true, ManualBuyer: true})
	plain := f.invoice("order1").with("idempotencyID", nil)
	require.Equal(t, "0000", f.twoctwop(tokenPath, plain)["respCode"])
	require.Equal(t, "9015", f.twoctwop(tokenPath, plain)["respCode"])
	require.Equal(t, "2002", f.inquire("order1")["respCode"], "there is no transaction before the buyer pays")
	_, answer := f.control("/buyer", `{"provider":"2c2p","out_trade_no":"order1","action":"cancel"}`)
	require.Contains(t, answer, "closed")
	require.Equal(t, "0003", f.inquire("order1")["respCode"])
}

func TestTwoCTwoPFields(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{Quiet: true})
	for _, test := range []struct {
		field string
		value any
		code  string
	}{
		{"invoiceNo", nil, "9005"},
		{"invoiceNo", "order-1", "9004"},
		{"invoiceNo", strings.Repeat("1", 51), "9006"},
		{"description", nil, "9005"},
		{"description", strings.Repeat("d", 251), "9006"},
		{"amount", nil, "9005"},
		{"amount", json.Number("0"), "9009"},
		{"amount", json.Number("-1"), "9009"},
		{"amount", json.Number("1.001"), "9009"},
		{"amount", json.Number("1e3"), "9009"},
		{"amount", json.Number("1000000000000"), "9009"},
		{"amount", "10.00", "9009"},
		{"currencyCode", "702", "9010"},
		{"currencyCode", nil, "9010"},
		{"paymentChannel", "CC", "9058"},
		{"paymentChannel", []string{"CREDITCARD"}, "9058"},
		{"idempotencyID", strings.Repeat("i", 101), "9006"},
	} {
		require.Equal(t, test.code, f.twoctwop(tokenPath, f.invoice("order1").with(test.field, test.value))["respCode"], "%+v", test)
	}
	require.Equal(t, "9009", f.twoctwop(tokenPath, f.invoice("order2").with("currencyCode", "IDR").with("amount", json.Number("1.50")))["respCode"])
	require.Empty(t, f.sim.Ledger())
	for number, test := range map[string]struct{ currency, amount, moved string }{
		"fine1": {"SGD", "2500.90000", "charge 250090 SGD"}, "fine2": {"JPY", "1", "charge 1 JPY"},
		"fine3": {"KWD", "999999999999.999", "charge 999999999999999 KWD"}, "fine4": {"IDR", "1500", "charge 1500 IDR"},
	} {
		asked := f.invoice(number).with("currencyCode", test.currency).with("amount", json.Number(test.amount))
		require.Equal(t, "0000", f.twoctwop(tokenPath, asked.with("paymentChannel", []string{"CC", "PPQR"}))["respCode"])
		require.Equal(t, []string{test.moved}, f.moved("2c2p", number))
	}
	require.Equal(t, "9005", f.twoctwop(inquiryPath, claims{"merchantID": f.keys.TwoCTwoPMerchantID})["respCode"])
}

// A request that does not verify is refused without a signature, and nothing
// in it is believed.
func TestTwoCTwoPRefusesWhatDoesNotVerify(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{Quiet: true})
	signed := signHS256(t, f.invoice("order1"), f.keys.TwoCTwoPSecretKey)
	head := func(alg string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"` + alg + `","typ":"JWT"}`))
	}
	parts := strings.Split(signed, ".")
	hs512, err := jwt.NewWithClaims(jwt.SigningMethodHS512, jwt.MapClaims(f.invoice("order1"))).SignedString([]byte(f.keys.TwoCTwoPSecretKey))
	require.NoError(t, err)
	for name, test := range map[string]struct{ payload, code string }{
		"another key":        {signHS256(t, f.invoice("order1"), "another secret"), "9042"},
		"no algorithm":       {head("none") + "." + parts[1] + ".", "9042"},
		"another algorithm":  {hs512, "9042"},
		"a changed payload":  {parts[0] + "." + strings.Split(publishedToken, ".")[1] + "." + parts[2], "9042"},
		"no token":           {"x", "9900"},
		"nothing":            {"", "9900"},
		"another merchant":   {signHS256(t, f.invoice("order1").with("merchantID", "JT02"), f.keys.TwoCTwoPSecretKey), "9007"},
		"without a merchant": {signHS256(t, f.invoice("order1").with("merchantID", nil), f.keys.TwoCTwoPSecretKey), "9007"},
	} {
		status, _, answer := f.send(http.MethodPost, tokenPath, nil, `{"payload":"`+test.payload+`"}`)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, answer, `"respCode":"`+test.code+`"`, name)
		require.NotContains(t, answer, `"payload":`, name)
	}
	require.Empty(t, f.sim.Ledger())
}

func TestTwoCTwoPFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault, code string
		moved       int
	}{
		{"error_before", "0999", 0}, {"error_after", "0999", 1}, {"decline", "9059", 0}, {"delay", "0000", 1},
	} {
		f := setup(t, pspsim.Options{Quiet: true})
		f.arm("2c2p", "charge", test.fault)
		require.Equal(t, test.code, f.twoctwop(tokenPath, f.invoice("order1"))["respCode"], test.fault)
		require.Len(t, f.sim.Ledger(), test.moved, test.fault)
		require.Equal(t, "0000", f.twoctwop(tokenPath, f.invoice("order1"))["respCode"], test.fault)
		require.Len(t, f.sim.Ledger(), 1, test.fault)
	}
	f := setup(t, pspsim.Options{Quiet: true})
	f.arm("2c2p", "charge", "drop_after")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+tokenPath,
		strings.NewReader(`{"payload":"`+signHS256(t, f.invoice("order1"), f.keys.TwoCTwoPSecretKey)+`"}`))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	require.Error(t, err)
	require.Len(t, f.sim.Ledger(), 1)
}

func TestTwoCTwoPNotifications(t *testing.T) {
	t.Parallel()
	box := newInbox(t, acknowledge("whatever"))
	f := setup(t, pspsim.Options{NotifyURL: box.url})
	f.twoctwop(tokenPath, f.invoice("order1"))
	got := box.next(t)
	require.Equal(t, "/webhooks/2c2p", got.path)
	require.Contains(t, got.header.Get("Content-Type"), "application/json")
	paid := f.opened(got.body)
	require.Equal(t, "0000", paid["respCode"])
	require.Equal(t, "10.00", paid["amount"])
	require.Equal(t, "JT01", paid["merchantID"])

	references := map[any]bool{}
	for _, test := range []struct{ event, code string }{
		{"paid", "0000"}, {"waiting", "0001"}, {"failed", "4005"}, {"closed", "0003"},
	} {
		acks := f.notify(fmt.Sprintf(`{"provider":"2c2p","out_trade_no":"order1","event":%q,"times":2}`, test.event))
		require.Len(t, acks, 2)
		one, two := f.opened(box.next(t).body), f.opened(box.next(t).body)
		require.Equal(t, test.code, one["respCode"])
		require.Equal(t, one, two)
		references[one["tranRef"]] = true
	}
	require.Len(t, references, 2, "a failed attempt has a reference of its own")
	for _, event := range []string{"finished", "refund_partial", "refund_full"} {
		status, answer := f.control("/notify", fmt.Sprintf(`{"provider":"2c2p","out_trade_no":"order1","event":%q}`, event))
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, answer, "2c2p sends no notification")
	}
	f.twoctwop(tokenPath, f.invoice("order2").with("backendReturnUrl", box.url+"/own"))
	require.Equal(t, "/own", box.next(t).path)
}
