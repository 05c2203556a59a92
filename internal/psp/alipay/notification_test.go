package alipay_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/alipay"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestNotifications(t *testing.T) {
	t.Parallel()
	received := make(chan []byte, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- body
		_, _ = io.WriteString(w, "success")
	}))
	t.Cleanup(server.Close)
	provider, _, sim := setup(t, func(_ *alipay.Config, o *pspsim.Options) { o.NotifyURL = server.URL })
	provider.Charge(t.Context(), order("order-1", 1001))
	paid, err := provider.ParseNotification(t.Context(), nil, <-received)
	require.NoError(t, err)
	require.Equal(t, psp.EventPaid, paid.Event)
	require.Equal(t, "webhook:alipay:order-1", paid.Key)
	require.Equal(t, cny(1001), paid.Money)

	seen := map[string]bool{paid.Key: true}
	tests := []struct {
		name     string
		event    psp.Event
		refunded int64
	}{
		{"waiting", psp.EventWaiting, 0},
		{"finished", psp.EventFinished, 0},
		{"closed", psp.EventClosed, 0},
		{"refund_partial", psp.EventRefundPartial, 500},
		{"refund_full", psp.EventRefundFull, 1001},
	}
	for _, test := range tests {
		var told struct{ Acknowledgements []struct{ Body string } }
		post(t, sim.URL+"/notify", fmt.Sprintf(`{"provider":"alipay","out_trade_no":"order-1","event":%q,"times":2}`, test.name), &told)
		require.Len(t, told.Acknowledgements, 2)
		require.Equal(t, "success", told.Acknowledgements[0].Body)
		first, err := provider.ParseNotification(t.Context(), nil, <-received)
		require.NoError(t, err)
		again, err := provider.ParseNotification(t.Context(), nil, <-received)
		require.NoError(t, err)
		require.Equal(t, first.Key, again.Key, "a redelivery is the same event")
		require.False(t, seen[first.Key], "another event is another key: %s", first.Key)
		seen[first.Key] = true
		require.Equal(t, test.event, first.Event)
		require.Equal(t, test.refunded, first.RefundedTotal.Amount)
	}
	acknowledged := provider.Acknowledge()
	require.Equal(t, "success", string(acknowledged.Body))
	require.Equal(t, "text/plain", acknowledged.ContentType)
}

func TestForgedNotifications(t *testing.T) {
	t.Parallel()
	received := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- body
		_, _ = io.WriteString(w, "success")
	}))
	t.Cleanup(server.Close)
	provider, _, _ := setup(t, func(_ *alipay.Config, o *pspsim.Options) { o.NotifyURL = server.URL })
	provider.Charge(t.Context(), order("order-1", 1000))
	genuine, err := url.ParseQuery(string(<-received))
	require.NoError(t, err)
	changed := func(change func(url.Values)) []byte {
		form, _ := url.ParseQuery(genuine.Encode())
		change(form)
		return []byte(form.Encode())
	}
	_, err = provider.ParseNotification(t.Context(), nil, changed(func(url.Values) {}))
	require.NoError(t, err)
	for name, body := range map[string][]byte{
		"another amount": changed(func(f url.Values) { f.Set("total_amount", "0.01") }),
		"another order":  changed(func(f url.Values) { f.Set("out_trade_no", "order-2") }),
		"no signature":   changed(func(f url.Values) { f.Del("sign") }),
		"a field more":   changed(func(f url.Values) { f.Set("refund_fee", "1.00") }),
		"not a form":     []byte("%zz"),
		"empty":          nil,
	} {
		_, err := provider.ParseNotification(t.Context(), nil, body)
		require.Error(t, err, name)
	}
	foreign, _, _ := setup(t, func(c *alipay.Config, _ *pspsim.Options) { c.AppID = "2021000000000999" })
	_, err = foreign.ParseNotification(t.Context(), nil, []byte(genuine.Encode()))
	require.ErrorContains(t, err, "for app")
}

// publishedKey and published are a notification of Alipay's with the key that
// verifies it, from the tests of Alipay's own SDK: alipay/alipay-sdk-nodejs-all
// 4.14.0, test/alipay.test.ts, "with sign_type arguments verify success".
const publishedKey = "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAqObrdC7hrgAVM98tK0nv3hSQRGGKT4lBsQjHiGjeYZjOPIPHR5kn" +
	"m2jnnz/YGIXIofVHkA/tAlBAd5DrY7YpvI4tP5EONLtZKC2ghBMx7McI2wRD0xiqzxOQr1FuhZGJ8/AUokBzJrzY+aGX2xcOrxFYRlFilvVLTXg4" +
	"LWjR1tdPkO6+i7wQZAIVMClPkwVRZEbaERRHlKqTzv2gGv5rDU8gRoe1LeaN+6BlbTqHWkQcNCUNrA8C6l17XAXGKDsm/9TFWwO8EPHHHCaQdjtV" +
	"5/FdcWIt+L8SR1ss7EXTjYDFtxcKVv9rEoY1lX8T4mX+GbXfZHraG5NCF1+XioL5JwIDAQAB"

var published = map[string]string{
	"gmt_create": "2019-08-15 15:56:22", "charset": "utf-8", "seller_email": "z97-yuquerevenue@service.aliyun.com",
	"subject": "语雀空间 500人规模", "buyer_id": "2088102534368455", "invoice_amount": "0.10",
	"notify_id":      "2019081500222155624068450559358070",
	"fund_bill_list": `[{"amount":"0.10","fundChannel":"ALIPAYACCOUNT"}]`, "notify_type": "trade_status_sync",
	"trade_status": "TRADE_SUCCESS", "receipt_amount": "0.10", "buyer_pay_amount": "0.10", "sign_type": "RSA2",
	"app_id": "2019073166072302", "seller_id": "2088531891668739", "gmt_payment": "2019-08-15 15:56:24",
	"notify_time": "2019-08-15 15:56:25", "version": "1.0", "out_trade_no": "20190815155618536-564-57",
	"total_amount": "0.10", "trade_no": "2019081522001468450512505578", "auth_app_id": "2019073166072302",
	"buyer_logon_id": "xud***@126.com", "point_amount": "0.00",
	"sign": "QfTb8tqE1BMhS5qAnXtvsF3/jBkEvu9q9en0pdbBUDDjvKycZhQb7h8GDs4FKfi049PynaNuatxSgLb/nLWZpXyyh0LEWdK2S6Ri7nPwrV" +
		"gOs08zugLO20vOQz44y3ti2Ncm8/wZts1Fr2gZ7pShnVX3d1B50hbsXnObT1r/U8ONNQjWXd0HIul4TG+Q3fm3svmSvFEy0WnzuhcyHPX5Gm4" +
		"ELNctL6Qd5YniGJFNcc7kopHYtI/XD9YCKCH6Ct02rzUs9i11C9CsadtZn+WhxF26Dqt9sGEFajkJ8cxUTLi8+VCpLHsgPE8P0y095uQcDdK0" +
		"YjCh4x7wVSov+lrmOQ==",
}

func TestPublishedNotification(t *testing.T) {
	t.Parallel()
	made, err := keys()
	require.NoError(t, err)
	provider, err := alipay.New(alipay.Config{
		AppID: "2019073166072302", PrivateKey: made.AlipayMerchantPrivateKey, AlipayPublicKey: publishedKey,
		SellerID: "2088531891668739",
	})
	require.NoError(t, err)
	form := url.Values{}
	for name, value := range published {
		form.Set(name, value)
	}
	n, err := provider.ParseNotification(t.Context(), nil, []byte(form.Encode()))
	require.NoError(t, err)
	require.Equal(t, psp.Notification{
		Event: psp.EventPaid, Key: "webhook:alipay:20190815155618536-564-57", OrderID: "20190815155618536-564-57",
		TradeNo: "2019081522001468450512505578", Money: cny(10), Code: "TRADE_SUCCESS",
	}, n)
	for name := range published {
		if name == "sign_type" {
			continue // the one parameter that the signature leaves out
		}
		changed := url.Values{}
		for each, value := range published {
			changed.Set(each, value)
		}
		changed.Set(name, published[name]+"0")
		_, err := provider.ParseNotification(t.Context(), nil, []byte(changed.Encode()))
		require.Error(t, err, name)
	}
}

// notification is a form as Alipay posts it, signed by platform.
func notification(t *testing.T, change map[string]string) []byte {
	t.Helper()
	made, err := keys()
	require.NoError(t, err)
	parameters := map[string]string{
		"app_id": made.AlipayAppID, "seller_id": made.AlipaySellerID, "notify_type": "trade_status_sync",
		"out_trade_no": "order-1", "trade_no": "7", "total_amount": "10.00", "subject": "Tea",
	}
	for name, value := range change {
		parameters[name] = value
	}
	form := url.Values{}
	var pairs []string
	for name, value := range parameters {
		form.Set(name, value)
		pairs = append(pairs, name+"="+value)
	}
	slices.Sort(pairs)
	form.Set("sign", signed(t, strings.Join(pairs, "&")))
	form.Set("sign_type", "RSA2")
	return []byte(form.Encode())
}

func TestEventOfEachStatus(t *testing.T) {
	t.Parallel()
	const paidKey = "webhook:alipay:order-1"
	at := map[string]string{"gmt_refund": "2026-01-01 00:00:00.123"}
	with := func(parameters ...string) map[string]string {
		made := map[string]string{}
		for i := 0; i < len(parameters); i += 2 {
			made[parameters[i]] = parameters[i+1]
		}
		return made
	}
	for name, test := range map[string]struct {
		told     map[string]string
		event    psp.Event
		key      string
		refunded int64
	}{
		"waiting": {with("trade_status", "WAIT_BUYER_PAY"), psp.EventWaiting, paidKey + ":WAIT_BUYER_PAY", 0},
		"paid":    {with("trade_status", "TRADE_SUCCESS"), psp.EventPaid, paidKey, 0},
		// As in the sample of opendocs.alipay.com/open/270/105902.
		"paid, nothing refunded": {with("trade_status", "TRADE_SUCCESS", "refund_fee", "0.00"), psp.EventPaid, paidKey, 0},
		"part refunded": {
			with("trade_status", "TRADE_SUCCESS", "refund_fee", "3.00", "out_biz_no", "r1", "gmt_refund", at["gmt_refund"]),
			psp.EventRefundPartial, paidKey + ":refund:r1", 300,
		},
		"part refunded, named otherwise": {
			with("trade_status", "TRADE_SUCCESS", "refund_fee", "3.00", "out_request_no", "r1"),
			psp.EventRefundPartial, paidKey + ":refund:r1", 300,
		},
		"part refunded, no number": {
			with("trade_status", "TRADE_SUCCESS", "refund_fee", "3.00"), psp.EventRefundPartial, paidKey + ":refunded:300", 300,
		},
		"all refunded": {
			with("trade_status", "TRADE_CLOSED", "refund_fee", "10.00", "out_biz_no", "r2"),
			psp.EventRefundFull, paidKey + ":refund:r2", 1000,
		},
		"closed unpaid": {with("trade_status", "TRADE_CLOSED"), psp.EventClosed, paidKey + ":TRADE_CLOSED", 0},
		"finished":      {with("trade_status", "TRADE_FINISHED"), psp.EventFinished, paidKey + ":TRADE_FINISHED", 0},
		// FF-24: three months after the payment, and after a refund.
		"finished after a refund": {
			with("trade_status", "TRADE_FINISHED", "refund_fee", "3.00", "out_biz_no", "r1", "gmt_refund", at["gmt_refund"]),
			psp.EventFinished, paidKey + ":TRADE_FINISHED", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, err := keys()
			require.NoError(t, err)
			provider := newForPlatform(t, "http://127.0.0.1:1", made.AlipaySellerID)
			n, err := provider.ParseNotification(t.Context(), nil, notification(t, test.told))
			require.NoError(t, err)
			require.Equal(t, test.event, n.Event)
			require.Equal(t, test.key, n.Key)
			require.Equal(t, test.refunded, n.RefundedTotal.Amount)
			require.Equal(t, cny(1000), n.Money)
		})
	}
}

func TestRefusedNotifications(t *testing.T) {
	t.Parallel()
	made, err := keys()
	require.NoError(t, err)
	for says, told := range map[string]map[string]string{
		"for app":                {"app_id": "2021000000000999"},
		"for seller":             {"seller_id": "2088000000000999"},
		"names no out_trade_no":  {"out_trade_no": ""},
		"total_amount":           {"total_amount": "ten"},
		"refund_fee":             {"trade_status": "TRADE_SUCCESS", "refund_fee": "-1.00"},
		"unknown trade_status":   {"trade_status": "TRADE_PENDING"},
		`"subject" of the`:       {"subject": "Tea&refund_fee=1.00", "trade_status": "TRADE_SUCCESS"},
		"signature does not ver": {"alipay_cert_sn": "28d1147972121b91734da59aa10f3c16", "trade_status": "TRADE_SUCCESS"},
	} {
		g := newRawGateway(t, func(string) string { return "" })
		provider := newForPlatform(t, "http://127.0.0.1:1", made.AlipaySellerID)
		_, err := provider.ParseNotification(t.Context(), nil, notification(t, told))
		require.ErrorContains(t, err, says)
		_, err = g.provider.ParseNotification(t.Context(), nil, notification(t, told))
		if says != "for seller" {
			require.Error(t, err)
		}
		require.Empty(t, g.requests(), "nothing is asked of Alipay for a notification that nobody has verified")
	}
}

// A refund must not pass as a payment: the text that is signed stays the same
// when a parameter is moved into the value before it.
func TestHiddenParameter(t *testing.T) {
	t.Parallel()
	provider := newForPlatform(t, "http://127.0.0.1:1", "")
	genuine := notification(t, map[string]string{"trade_status": "TRADE_SUCCESS", "point_amount": "0.00", "refund_fee": "3.00"})
	n, err := provider.ParseNotification(t.Context(), nil, genuine)
	require.NoError(t, err)
	require.Equal(t, psp.EventRefundPartial, n.Event)
	form, err := url.ParseQuery(string(genuine))
	require.NoError(t, err)
	form.Set("point_amount", "0.00&refund_fee=3.00")
	form.Del("refund_fee")
	_, err = provider.ParseNotification(t.Context(), nil, []byte(form.Encode()))
	require.ErrorContains(t, err, "ambiguous")
	_, err = provider.ParseNotification(t.Context(), nil, append(genuine, "&out_trade_no=order-2"...))
	require.ErrorContains(t, err, "ambiguous")
}
