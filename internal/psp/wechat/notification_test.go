package wechat_test

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/wechat"
	"github.com/payonce/payonce/internal/pspsim"
)

// delivery is a notification as it arrives.
type delivery struct {
	header http.Header
	body   []byte
}

// inbox answers notifications like a shop and hands them out.
func inbox(t *testing.T) (address string, received chan delivery) {
	t.Helper()
	received = make(chan delivery, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- delivery{r.Header, body}
		_, _ = io.WriteString(w, `{"code":"SUCCESS"}`)
	}))
	t.Cleanup(server.Close)
	return server.URL, received
}

func TestNotifications(t *testing.T) {
	t.Parallel()
	address, received := inbox(t)
	provider, simulator, sim := setup(t, func(c *wechat.Config, o *pspsim.Options) {
		c.NotifyURL, o.Quiet = address+"/webhooks/wechat", false
	})
	provider.Charge(t.Context(), order("order-1", 1001))
	told := <-received
	paid, err := provider.ParseNotification(t.Context(), told.header, told.body)
	require.NoError(t, err)
	require.Equal(t, psp.EventPaid, paid.Event)
	require.Equal(t, "order-1", paid.OrderID)
	require.Equal(t, "webhook:wechat:"+paid.TradeNo, paid.Key)
	require.Equal(t, cny(1001), paid.Money)
	require.Equal(t, provider.Query(t.Context(), trade("order-1", 1001)).TradeNo, paid.TradeNo)

	seen := map[string]bool{paid.Key: true}
	for _, test := range []struct {
		name     string
		event    psp.Event
		refunded int64
	}{
		{"refund_partial", psp.EventRefundPartial, 500},
		{"refund_full", psp.EventRefundFull, 1001},
	} {
		var answered struct{ Acknowledgements []struct{ Body string } }
		post(t, sim.URL+"/notify", fmt.Sprintf(`{"provider":"wechat","out_trade_no":"order-1","event":%q,"times":2}`, test.name), &answered)
		require.Len(t, answered.Acknowledgements, 2)
		one, two := <-received, <-received
		first, err := provider.ParseNotification(t.Context(), one.header, one.body)
		require.NoError(t, err)
		again, err := provider.ParseNotification(t.Context(), two.header, two.body)
		require.NoError(t, err)
		require.Equal(t, first, again, "a redelivery is the same event")
		require.False(t, seen[first.Key], "another event is another key: %s", first.Key)
		seen[first.Key] = true
		require.Equal(t, test.event, first.Event)
		require.Equal(t, cny(test.refunded), first.Refunded)
		require.Equal(t, "order-1-"+test.name, first.RefundID)
	}

	// A refund of ours is told under our number, to where the request said.
	request := refundOf("r1", 300)
	request.Trade.Money = cny(1001)
	require.Equal(t, psp.Pending, provider.Refund(t.Context(), request).Verdict)
	told = <-received
	made, err := provider.ParseNotification(t.Context(), told.header, told.body)
	require.NoError(t, err)
	require.Equal(t, "r1", made.RefundID)
	require.Equal(t, cny(300), made.Refunded)
	require.Equal(t, cny(1001), made.Money)
	require.Len(t, simulator.Ledger(), 2)
}

// FF-26: the bytes of the acknowledgement.
func TestFF26_WeChatAcknowledgement(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	require.Equal(t, psp.Acknowledgement{
		Status: http.StatusOK, ContentType: "application/json", Body: []byte(`{"code":"SUCCESS"}`),
	}, provider.Acknowledge())
}

func TestForgedNotifications(t *testing.T) {
	t.Parallel()
	address, received := inbox(t)
	provider, _, _ := setup(t, func(c *wechat.Config, o *pspsim.Options) { c.NotifyURL, o.Quiet = address, false })
	provider.Charge(t.Context(), order("order-1", 1000))
	genuine := <-received
	_, err := provider.ParseNotification(t.Context(), genuine.header, genuine.body)
	require.NoError(t, err)

	header := func(change func(http.Header)) delivery {
		changed := genuine.header.Clone()
		change(changed)
		return delivery{changed, genuine.body}
	}
	set := func(name, value string) delivery { return header(func(h http.Header) { h.Set(name, value) }) }
	for name, test := range map[string]struct {
		told delivery
		says string
	}{
		"another body":       {delivery{genuine.header, append([]byte(" "), genuine.body...)}, "does not verify"},
		"empty body":         {delivery{genuine.header, nil}, "does not verify"},
		"another nonce":      {set("Wechatpay-Nonce", "0"), "does not verify"},
		"another second":     {set("Wechatpay-Timestamp", fmt.Sprint(time.Now().Unix()+7)), "does not verify"},
		"no signature":       {set("Wechatpay-Signature", ""), "not one header Wechatpay-Signature"},
		"no timestamp":       {header(func(h http.Header) { h.Del("Wechatpay-Timestamp") }), "not one header Wechatpay-Timestamp"},
		"no nonce":           {header(func(h http.Header) { h.Del("Wechatpay-Nonce") }), "not one header Wechatpay-Nonce"},
		"no serial":          {header(func(h http.Header) { h.Del("Wechatpay-Serial") }), "not one header Wechatpay-Serial"},
		"two serials":        {header(func(h http.Header) { h.Add("Wechatpay-Serial", "9") }), "not one header Wechatpay-Serial"},
		"another key":        {set("Wechatpay-Serial", "PUB_KEY_ID_9"), "not with the configured public key"},
		"no base64":          {set("Wechatpay-Signature", "%%"), "does not verify"},
		"a probe":            {set("Wechatpay-Signature", "WECHATPAY/SIGNTEST/aGVsbG8="), "probe"},
		"another algorithm":  {set("Wechatpay-Signature-Type", "WECHATPAY2-SM2-WITH-SM3"), "and not WECHATPAY2-SHA256-RSA2048"},
		"time is no number":  {set("Wechatpay-Timestamp", "now"), "not within 5m"},
		"6 minutes ago":      {set("Wechatpay-Timestamp", fmt.Sprint(time.Now().Unix()-360)), "not within 5m"},
		"in 6 minutes":       {set("Wechatpay-Timestamp", fmt.Sprint(time.Now().Unix()+360)), "not within 5m"},
		"at the end of time": {set("Wechatpay-Timestamp", "9223372036854775807"), "not within 5m"},
		"no headers":         {delivery{nil, genuine.body}, "not one header"},
	} {
		_, err := provider.ParseNotification(t.Context(), test.told.header, test.told.body)
		require.ErrorContains(t, err, test.says, name)
		require.NotContains(t, err.Error(), "ciphertext", "nothing of the message is in the error")
	}
	other, err := otherKeys()
	require.NoError(t, err)
	for name, change := range map[string]func(*wechat.Config){
		"another APIv3 key":  func(c *wechat.Config) { c.APIv3Key = other.WeChatAPIv3Key },
		"another public key": func(c *wechat.Config) { c.PublicKey = other.WeChatPublicKey },
		"another merchant":   func(c *wechat.Config) { c.MchID = "1900000009" },
		"another app":        func(c *wechat.Config) { c.AppID = "wx0000000000000009" },
	} {
		foreign, _, _ := setup(t, func(c *wechat.Config, _ *pspsim.Options) { change(c) })
		_, err = foreign.ParseNotification(t.Context(), genuine.header, genuine.body)
		require.Error(t, err, name)
	}
}

// A notification is believed for five minutes, whichever clock is behind.
func TestToleranceBothWays(t *testing.T) {
	t.Parallel()
	provider := newForPlatform(t, "http://127.0.0.1:1")
	body := sealed(t, "TRANSACTION.SUCCESS", nil, nil)
	for offset, fresh := range map[time.Duration]bool{
		-6 * time.Minute: false, -4 * time.Minute: true, 0: true, 4 * time.Minute: true, 6 * time.Minute: false,
	} {
		_, err := provider.ParseNotification(t.Context(), signedHeader(t, string(body), time.Now().Add(offset)), body)
		require.Equal(t, fresh, err == nil, "%s: %v", offset, err)
	}
}

// sealed is a notification's body as WeChat Pay writes it; content and
// resource change what it says.
func sealed(t *testing.T, eventType string, content map[string]any, resource map[string]any) []byte {
	t.Helper()
	made := madeKeys(t)
	inner := map[string]any{
		"mchid": made.WeChatMchID, "out_trade_no": "order-1", "transaction_id": "4200",
		"amount": map[string]any{"total": 1000, "refund": 300, "payer_total": 900},
	}
	if eventType == "TRANSACTION.SUCCESS" {
		inner["appid"], inner["trade_state"] = made.WeChatAppID, "SUCCESS"
		inner["amount"] = map[string]any{"total": 1000, "payer_total": 900, "currency": "CNY"}
	} else {
		inner["refund_id"], inner["out_refund_no"] = "5030", "r1"
		inner["refund_status"] = strings.TrimPrefix(eventType, "REFUND.")
	}
	maps.Copy(inner, content)
	plain, err := json.Marshal(inner)
	require.NoError(t, err)
	block, err := aes.NewCipher([]byte(made.WeChatAPIv3Key))
	require.NoError(t, err)
	sealer, err := cipher.NewGCM(block)
	require.NoError(t, err)
	const nonce, associated = "0123456789ab", "transaction"
	outer := map[string]any{
		"algorithm": "AEAD_AES_256_GCM", "nonce": nonce, "associated_data": associated, "original_type": associated,
		"ciphertext": base64.StdEncoding.EncodeToString(sealer.Seal(nil, []byte(nonce), plain, []byte(associated))),
	}
	maps.Copy(outer, resource)
	body, err := json.Marshal(map[string]any{
		"id": "EV-1", "create_time": "2026-01-02T15:04:05+08:00", "resource_type": "encrypt-resource",
		"event_type": eventType, "summary": "-", "resource": outer,
	})
	require.NoError(t, err)
	return body
}

func TestEventOfEachType(t *testing.T) {
	t.Parallel()
	const paidKey = "webhook:wechat:4200"
	for name, test := range map[string]struct {
		eventType string
		content   map[string]any
		want      psp.Notification
	}{
		"paid": {"TRANSACTION.SUCCESS", nil, psp.Notification{Event: psp.EventPaid, Key: paidKey, Code: "SUCCESS"}},
		"part refunded": {"REFUND.SUCCESS", nil, psp.Notification{
			Event: psp.EventRefundPartial, Key: paidKey + ":refund:5030", RefundID: "r1", Refunded: cny(300), Code: "SUCCESS",
		}},
		"all refunded": {"REFUND.SUCCESS", map[string]any{"amount": map[string]any{"total": 1000, "refund": 1000}}, psp.Notification{
			Event: psp.EventRefundFull, Key: paidKey + ":refund:5030", RefundID: "r1", Refunded: cny(1000), Code: "SUCCESS",
		}},
		"refund closed": {"REFUND.CLOSED", nil, psp.Notification{
			Event: psp.EventRefundFailed, Key: paidKey + ":refund:5030:CLOSED", RefundID: "r1", Refunded: cny(300), Code: "CLOSED",
		}},
		// It may arrive yet, so that it is no failure, and its success another event.
		"refund did not arrive": {"REFUND.ABNORMAL", nil, psp.Notification{
			Event: psp.EventPaid, Key: paidKey + ":refund:5030:ABNORMAL", Code: "ABNORMAL",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := newForPlatform(t, "http://127.0.0.1:1")
			body := sealed(t, test.eventType, test.content, nil)
			n, err := provider.ParseNotification(t.Context(), signedHeader(t, string(body), time.Now()), body)
			require.NoError(t, err)
			test.want.OrderID, test.want.TradeNo, test.want.Money = "order-1", "4200", cny(1000)
			require.Equal(t, test.want, n)
		})
	}
}

// Signed by WeChat Pay, and still refused.
func TestRefusedNotifications(t *testing.T) {
	t.Parallel()
	const paid, refund = "TRANSACTION.SUCCESS", "REFUND.SUCCESS"
	amount := func(total, refund any, currency string) map[string]any {
		return map[string]any{"amount": map[string]any{"total": total, "refund": refund, "currency": currency}}
	}
	for name, test := range map[string]struct {
		eventType         string
		content, resource map[string]any
		says              string
	}{
		"another merchant":      {paid, map[string]any{"mchid": "1900000009"}, nil, "for merchant"},
		"no merchant":           {refund, map[string]any{"mchid": nil}, nil, "for merchant"},
		"another app":           {paid, map[string]any{"appid": "wx9"}, nil, "for app"},
		"no app":                {paid, map[string]any{"appid": ""}, nil, "names no app"},
		"a refund of another":   {refund, map[string]any{"appid": "wx9"}, nil, "for app"},
		"no order":              {paid, map[string]any{"out_trade_no": ""}, nil, "names no out_trade_no"},
		"no transaction":        {paid, map[string]any{"transaction_id": ""}, nil, "no transaction_id"},
		"no amount":             {paid, map[string]any{"amount": nil}, nil, "no amount"},
		"nothing paid":          {paid, amount(0, 0, "CNY"), nil, "no amount"},
		"dollars":               {paid, amount(1000, 0, "USD"), nil, "no amount in CNY"},
		"no number":             {paid, amount("1000", 0, "CNY"), nil, "content is not"},
		"a part of a fen":       {paid, amount(1000.5, 0, "CNY"), nil, "content is not"},
		"not paid":              {paid, map[string]any{"trade_state": "NOTPAY"}, nil, `trade_state "NOTPAY"`},
		"closed":                {paid, map[string]any{"trade_state": "CLOSED"}, nil, `trade_state "CLOSED"`},
		"unknown event":         {"TRANSACTION.FAIL", nil, nil, "unknown event_type"},
		"refund under way":      {refund, map[string]any{"refund_status": "PROCESSING"}, nil, `refund_status "PROCESSING"`},
		"event unlike content":  {"REFUND.CLOSED", map[string]any{"refund_status": "SUCCESS"}, nil, `refund_status "SUCCESS"`},
		"no refund":             {refund, map[string]any{"refund_id": ""}, nil, "names no refund"},
		"no refund number":      {refund, map[string]any{"out_refund_no": ""}, nil, "names no refund"},
		"nothing refunded":      {refund, amount(1000, 0, ""), nil, "no amount"},
		"more than was paid":    {refund, amount(1000, 1001, ""), nil, "no amount"},
		"another algorithm":     {paid, nil, map[string]any{"algorithm": "AEAD_SM4_GCM"}, "is sealed by"},
		"a nonce of 11":         {paid, nil, map[string]any{"nonce": "0123456789a"}, "does not open"},
		"other associated data": {paid, nil, map[string]any{"associated_data": "refund"}, "does not open"},
		"no ciphertext":         {paid, nil, map[string]any{"ciphertext": ""}, "does not open"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := newForPlatform(t, "http://127.0.0.1:1")
			body := sealed(t, test.eventType, test.content, test.resource)
			_, err := provider.ParseNotification(t.Context(), signedHeader(t, string(body), time.Now()), body)
			require.ErrorContains(t, err, test.says)
		})
	}
	provider := newForPlatform(t, "http://127.0.0.1:1")
	for _, body := range []string{"", "null", "{}", "[]", "no JSON", `{"resource":null}`} {
		_, err := provider.ParseNotification(t.Context(), signedHeader(t, body, time.Now()), []byte(body))
		require.Error(t, err, body)
	}
}
