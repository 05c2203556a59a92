package wechat_test

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/wechat"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	fields := func(pairs ...string) map[string]string {
		made := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			made[pairs[i]] = pairs[i+1]
		}
		return made
	}
	tests := map[string]struct {
		change func(*psp.ChargeRequest)
		field  string
	}{
		"fine":                  {func(*psp.ChargeRequest) {}, ""},
		"6 characters":          {func(r *psp.ChargeRequest) { r.OrderID = "aZ0_-|" }, ""},
		"32 characters":         {func(r *psp.ChargeRequest) { r.OrderID = strings.Repeat("*", 32) }, ""},
		"5 characters":          {func(r *psp.ChargeRequest) { r.OrderID = "order" }, "order_id"},
		"33 characters":         {func(r *psp.ChargeRequest) { r.OrderID = strings.Repeat("o", 33) }, "order_id"},
		"no order id":           {func(r *psp.ChargeRequest) { r.OrderID = "" }, "order_id"},
		"a space":               {func(r *psp.ChargeRequest) { r.OrderID = "order 1" }, "order_id"},
		"a line's end":          {func(r *psp.ChargeRequest) { r.OrderID = "order-1\n" }, "order_id"},
		"largest amount":        {func(r *psp.ChargeRequest) { r.Money = cny(100_000_000_00) }, ""},
		"zero":                  {func(r *psp.ChargeRequest) { r.Money = cny(0) }, "amount"},
		"dollars":               {func(r *psp.ChargeRequest) { r.Money.Currency = "USD" }, "currency"},
		"127 bytes":             {func(r *psp.ChargeRequest) { r.Subject = strings.Repeat("茶", 42) + "x" }, ""},
		"128 bytes":             {func(r *psp.ChargeRequest) { r.Subject = strings.Repeat("茶", 42) + "xy" }, "subject"},
		"unknown field":         {func(r *psp.ChargeRequest) { r.Fields = fields("colour", "red") }, "colour"},
		"unknown method":        {func(r *psp.ChargeRequest) { r.Method = "cash" }, "method"},
		"a field too long":      {func(r *psp.ChargeRequest) { r.Fields = fields("attach", strings.Repeat("a", 129)) }, "attach"},
		"jsapi without a buyer": {func(r *psp.ChargeRequest) { r.Method = "jsapi" }, "openid"},
		"jsapi with a buyer":    {func(r *psp.ChargeRequest) { r.Method, r.Fields = "jsapi", fields("openid", "o1") }, ""},
		"native with a buyer":   {func(r *psp.ChargeRequest) { r.Fields = fields("openid", "o1") }, "openid"},
		"app":                   {func(r *psp.ChargeRequest) { r.Method = "app" }, ""},
		"h5 without an address": {func(r *psp.ChargeRequest) { r.Method, r.Fields = "h5", fields("h5_type", "Wap") }, "payer_client_ip"},
		"h5 without a scene":    {func(r *psp.ChargeRequest) { r.Method, r.Fields = "h5", fields("payer_client_ip", "::1") }, "h5_type"},
		"h5 with another scene": {func(r *psp.ChargeRequest) {
			r.Method, r.Fields = "h5", fields("payer_client_ip", "::1", "h5_type", "wap")
		}, "h5_type"},
		"a scene too many":    {func(r *psp.ChargeRequest) { r.Fields = fields("h5_type", "Wap") }, "h5_type"},
		"a time":              {func(r *psp.ChargeRequest) { r.Fields = fields("time_expire", "2026-01-02T15:04:05+08:00") }, ""},
		"no time":             {func(r *psp.ChargeRequest) { r.Fields = fields("time_expire", "tomorrow") }, "time_expire"},
		"notify with a query": {func(r *psp.ChargeRequest) { r.NotifyURL = "https://shop.example/?a=1" }, "notify_url"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := order("order-1", 1000)
			test.change(&request)
			err := provider.Validate(request)
			if test.field == "" {
				require.NoError(t, err)
				return
			}
			var refused *psp.FieldError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, test.field, refused.Field)
		})
	}
}

// What WeChat Pay would refuse for its form is not even sent.
func TestRefusedBeforeSending(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	require.Equal(t, psp.Terminal, s.provider.Charge(t.Context(), order("short", 1000)).Verdict)
	require.Equal(t, psp.Terminal, s.provider.Refund(t.Context(), refundOf("r 1", 1)).Verdict)
	require.Equal(t, psp.Terminal, s.provider.Refund(t.Context(), refundOf(strings.Repeat("r", 65), 1)).Verdict)
	require.Empty(t, s.requests())
}

func TestChargeByEachMethod(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	tests := map[string]struct {
		request psp.ChargeRequest
		next    []string
	}{
		"native": {order("native-1", 1), []string{"code_url"}},
		"jsapi": {
			psp.ChargeRequest{OrderID: "jsapi-1", Money: cny(1050), Method: "jsapi", Fields: map[string]string{"openid": "o1"}},
			[]string{"prepay_id", "appId", "timeStamp", "nonceStr", "package", "signType", "paySign"},
		},
		"app": {
			psp.ChargeRequest{OrderID: "app-01", Money: cny(99_999_999_99), Method: "app"},
			[]string{"prepay_id", "appid", "partnerid", "prepayid", "package", "noncestr", "timestamp", "sign"},
		},
		"h5": {
			psp.ChargeRequest{OrderID: "h5-001", Money: cny(2), Method: "h5", Fields: map[string]string{
				"payer_client_ip": "127.0.0.1", "h5_type": "Wap", "attach": "7", "time_expire": "2126-01-02T15:04:05+08:00",
			}}, []string{"h5_url"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, provider.Validate(test.request))
			result := provider.Charge(t.Context(), test.request)
			require.Equal(t, psp.Pending, result.Verdict, "%+v", result)
			require.Len(t, result.Next, len(test.next))
			for _, each := range test.next {
				require.NotEmpty(t, result.Next[each], each)
			}
			asked := provider.Query(t.Context(), trade(test.request.OrderID, 0))
			require.Equal(t, psp.Succeeded, asked.Verdict, "%+v", asked)
			require.Equal(t, test.request.Money, asked.Paid)
			require.NotEmpty(t, asked.TradeNo)
		})
	}
	require.Len(t, simulator.Ledger(), len(tests))
}

// What the client hands WeChat is signed with the merchant's key, over four
// lines (pages 4012365339 for JSAPI, 4012365340 for apps).
func TestClientSignatures(t *testing.T) {
	t.Parallel()
	made := madeKeys(t)
	block, _ := pem.Decode([]byte(made.WeChatMerchantPrivateKey))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	verify := func(signature string, lines ...string) {
		t.Helper()
		digest := sha256.Sum256([]byte(strings.Join(lines, "\n") + "\n"))
		decoded, err := base64.StdEncoding.DecodeString(signature)
		require.NoError(t, err)
		require.NoError(t, rsa.VerifyPKCS1v15(&key.(*rsa.PrivateKey).PublicKey, crypto.SHA256, digest[:], decoded))
	}
	provider, _, _ := setup(t, nil)
	request := order("order-1", 1000)
	request.Method, request.Fields = "jsapi", map[string]string{"openid": "o1"}
	page := provider.Charge(t.Context(), request).Next
	require.Equal(t, "prepay_id="+page["prepay_id"], page["package"])
	verify(page["paySign"], made.WeChatAppID, page["timeStamp"], page["nonceStr"], page["package"])

	request = order("order-2", 1000)
	request.Method = "app"
	app := provider.Charge(t.Context(), request).Next
	require.Equal(t, "Sign=WXPay", app["package"])
	require.Equal(t, made.WeChatMchID, app["partnerid"])
	verify(app["sign"], made.WeChatAppID, app["timestamp"], app["noncestr"], app["prepayid"])
}

func TestRequestFields(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string]told{"POST /v3/pay/transactions/native": {status: http.StatusOK, body: `{"code_url":"weixin://1"}`}})
	request := order("order_1", 1050)
	request.Subject = ""
	request.Fields = map[string]string{
		"attach": "7", "goods_tag": "WXG", "payer_client_ip": "10.0.0.1", "device_id": "d1", "time_expire": "2126-01-02T15:04:05+08:00",
	}
	require.Equal(t, "weixin://1", s.provider.Charge(t.Context(), request).Next["code_url"])
	request.NotifyURL = "https://shop.example/other"
	s.provider.Charge(t.Context(), request)
	made := madeKeys(t)
	require.JSONEq(t, fmt.Sprintf(`{"appid":%q,"mchid":%q,"description":"order_1","out_trade_no":"order_1","attach":"7",
		"goods_tag":"WXG","time_expire":"2126-01-02T15:04:05+08:00","notify_url":%q,"amount":{"total":1050,"currency":"CNY"},
		"scene_info":{"payer_client_ip":"10.0.0.1","device_id":"d1"}}`, made.WeChatAppID, made.WeChatMchID, notifyURL),
		s.requests()[0].body)
	require.Contains(t, s.requests()[1].body, `"notify_url":"https://shop.example/other"`)
	require.Equal(t, platformKeyID, s.requests()[0].header.Get("Wechatpay-Serial"), "the key that the answer is to be signed with")
}

// Amounts are fen on both sides.
func TestAmountsToTheLastFen(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	for i, fen := range []int64{1, 9, 10, 99, 100, 101, 1050, 99_999, 12_345_678_90, 100_000_000_00} {
		id := fmt.Sprintf("amount_%d", i)
		require.Equal(t, psp.Pending, provider.Charge(t.Context(), order(id, fen)).Verdict)
		require.Equal(t, cny(fen), provider.Query(t.Context(), trade(id, fen)).Paid)
		require.Equal(t, fen, simulator.Ledger()[i].Amount)
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	require.Equal(t, psp.Pending, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)

	again := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Succeeded, again.Verdict, "already paid becomes the success that it is")
	require.Equal(t, cny(1000), again.Paid)

	renamed := order("order-1", 1000)
	renamed.Subject = "Coffee"
	require.Equal(t, psp.Succeeded, provider.Charge(t.Context(), renamed).Verdict, "paid, over this very amount")

	other := provider.Charge(t.Context(), order("order-1", 2000))
	require.Equal(t, psp.Terminal, other.Verdict)
	require.Equal(t, "OUT_TRADE_NO_USED", other.Code)
	require.Len(t, simulator.Ledger(), 1)
}

// Until the buyer pays, the same parameters get the same order again, and
// others are refused.
func TestDuplicatesOfAnUnpaidOrder(t *testing.T) {
	t.Parallel()
	provider, simulator, server := setup(t, func(_ *wechat.Config, o *pspsim.Options) { o.ManualBuyer = true })
	first := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Pending, first.Verdict)
	require.Equal(t, first, provider.Charge(t.Context(), order("order-1", 1000)))
	other := order("order-1", 1000)
	other.Subject = "Coffee"
	require.Equal(t, psp.Terminal, provider.Charge(t.Context(), other).Verdict)
	require.Equal(t, psp.Pending, provider.Query(t.Context(), trade("order-1", 1000)).Verdict)
	require.Empty(t, simulator.Ledger())
	post(t, server.URL+"/buyer", `{"provider":"wechat","out_trade_no":"order-1","action":"pay"}`, nil)
	require.Equal(t, psp.Succeeded, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
	require.Len(t, simulator.Ledger(), 1)
}

// A drop after the money moved: the query finds it, and the same charge again
// is the success that it is, once.
func TestDropAfterTheMoneyMoved(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "wechat", Op: "charge", Fault: "drop_after"}))
	dropped := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.InDoubt, dropped.Verdict)
	require.Error(t, dropped.Err)
	asked := provider.Query(t.Context(), trade("order-1", 1000))
	require.Equal(t, psp.Succeeded, asked.Verdict)
	require.Equal(t, cny(1000), asked.Paid)
	require.Equal(t, psp.Succeeded, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
	require.Len(t, simulator.Ledger(), 1)
}

// transaction is an order as a query tells it.
func transaction(t *testing.T, change map[string]any) told {
	t.Helper()
	made := madeKeys(t)
	content := map[string]any{
		"appid": made.WeChatAppID, "mchid": made.WeChatMchID, "out_trade_no": "order-1", "trade_state": "SUCCESS",
		"transaction_id": "4200", "amount": map[string]any{"total": 1000, "payer_total": 900, "currency": "CNY"},
	}
	for name, value := range change {
		content[name] = value
	}
	body, err := json.Marshal(content)
	require.NoError(t, err)
	return told{status: http.StatusOK, body: string(body)}
}

// What a charge that WeChat Pay says is paid, or used before, becomes follows
// from the query.
func TestPaidAlready(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code    string
		query   told
		verdict psp.Verdict
	}{
		"paid":                    {"ORDERPAID", transaction(t, nil), psp.Succeeded},
		"paid differently":        {"ORDERPAID", transaction(t, map[string]any{"amount": map[string]any{"total": 1, "currency": "CNY"}}), psp.Succeeded},
		"paid, no amount":         {"ORDERPAID", transaction(t, map[string]any{"amount": nil}), psp.InDoubt},
		"paid, other money":       {"ORDERPAID", transaction(t, map[string]any{"amount": map[string]any{"total": 1000, "currency": "USD"}}), psp.InDoubt},
		"another order's":         {"ORDERPAID", transaction(t, map[string]any{"out_trade_no": "order-2"}), psp.InDoubt},
		"another merchant's":      {"ORDERPAID", transaction(t, map[string]any{"mchid": "1900000009"}), psp.InDoubt},
		"no such order":           {"ORDERPAID", problem(http.StatusNotFound, "ORDER_NOT_EXIST"), psp.InDoubt},
		"query fails":             {"ORDERPAID", problem(http.StatusInternalServerError, "SYSTEM_ERROR"), psp.InDoubt},
		"used, paid":              {"OUT_TRADE_NO_USED", transaction(t, nil), psp.Succeeded},
		"used, paid differently":  {"OUT_TRADE_NO_USED", transaction(t, map[string]any{"amount": map[string]any{"total": 1, "currency": "CNY"}}), psp.Terminal},
		"used, unpaid":            {"OUT_TRADE_NO_USED", transaction(t, map[string]any{"trade_state": "NOTPAY"}), psp.Terminal},
		"used, query fails":       {"OUT_TRADE_NO_USED", problem(http.StatusInternalServerError, "SYSTEM_ERROR"), psp.InDoubt},
		"invalid, paid":           {"INVALID_REQUEST", transaction(t, nil), psp.Succeeded},
		"invalid, no such order":  {"INVALID_REQUEST", problem(http.StatusNotFound, "ORDER_NOT_EXIST"), psp.Terminal},
		"closed, and not a query": {"ORDER_CLOSED", told{}, psp.Terminal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, map[string]told{
				"POST /v3/pay/transactions/native": problem(http.StatusForbidden, test.code),
				"GET /v3/pay/transactions":         test.query,
			})
			result := s.provider.Charge(t.Context(), order("order-1", 1000))
			require.Equal(t, test.verdict, result.Verdict, "%+v", result)
			if name == "paid differently" {
				require.Equal(t, cny(1), result.Paid, "for the caller to compare")
			}
		})
	}
}

func TestTradeStates(t *testing.T) {
	t.Parallel()
	for state, verdict := range map[string]psp.Verdict{
		"SUCCESS": psp.Succeeded, "REFUND": psp.Succeeded, "NOTPAY": psp.Pending, "USERPAYING": psp.Pending,
		"CLOSED": psp.Terminal, "REVOKED": psp.Terminal, "PAYERROR": psp.Terminal, "SOMETHING_NEW": psp.InDoubt, "": psp.InDoubt,
	} {
		s := newServer(t, map[string]told{"GET /v3/pay/transactions": transaction(t, map[string]any{"trade_state": state})})
		result := s.provider.Query(t.Context(), trade("order-1", 1000))
		require.Equal(t, verdict, result.Verdict, state)
		require.Equal(t, state, result.Code)
		require.Equal(t, verdict == psp.Succeeded, result.Paid == cny(1000), state)
	}
}

func TestFaultsAreJudgedByTheMoney(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault  string
		charge psp.Verdict
		moved  int
	}{
		{"error_before", psp.InDoubt, 0},
		{"error_after", psp.InDoubt, 1},
		{"drop_after", psp.InDoubt, 1},
		{"decline", psp.Terminal, 0},
		{"delay", psp.Pending, 1},
	}
	for _, test := range tests {
		t.Run(test.fault, func(t *testing.T) {
			t.Parallel()
			provider, simulator, _ := setup(t, nil)
			require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "wechat", Op: "charge", Fault: test.fault, DelayMS: 1}))
			require.Equal(t, test.charge, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
			require.Len(t, simulator.Ledger(), test.moved)
			asked := provider.Query(t.Context(), trade("order-1", 1000))
			if test.moved == 0 {
				require.Equal(t, psp.NotFound, asked.Verdict)
			} else {
				require.Equal(t, psp.Succeeded, asked.Verdict)
			}
		})
	}
}

func TestQueryFaultsLeaveItInDoubt(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"error_before", "error_after", "drop_after"} {
		provider, simulator, _ := setup(t, nil)
		require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "wechat", Op: "query", Fault: fault}))
		require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order-1", 1000)).Verdict, fault)
	}
}

func TestTimeoutIsInDoubt(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "wechat", Op: "charge", Fault: "delay", DelayMS: 60_000}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	result := provider.Charge(ctx, order("order-1", 1000))
	require.Equal(t, psp.InDoubt, result.Verdict)
	require.ErrorIs(t, result.Err, context.DeadlineExceeded)
}

func TestNeverSentIsTransient(t *testing.T) {
	t.Parallel()
	provider, _, server := setup(t, nil)
	server.Close()
	for _, result := range []psp.Result{
		provider.Charge(t.Context(), order("order-1", 1000)), provider.Refund(t.Context(), refundOf("r1", 1)),
	} {
		require.Equal(t, psp.Transient, result.Verdict)
		require.ErrorIs(t, result.Err, psp.ErrUnsent)
	}
	require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order-1", 1000)).Verdict,
		"a query that was never sent tells nothing about the money")
	require.Equal(t, psp.InDoubt, provider.QueryRefund(t.Context(), refundOf("r1", 1)).Verdict)
}

func TestUnbelievedAnswersAreInDoubt(t *testing.T) {
	t.Parallel()
	good := told{status: http.StatusOK, body: `{"code_url":"weixin://1"}`}
	forged := func(change func(http.Header)) told { return told{good.status, good.body, change} }
	probe := func(h http.Header) { h.Set("Wechatpay-Signature", "WECHATPAY/SIGNTEST/aGVsbG8=") }
	stale := func(h http.Header) {
		for name, values := range signedHeader(t, good.body, time.Now().Add(-6*time.Minute)) {
			h[name] = values
		}
	}
	refusal := func(status int, code string, change func(http.Header)) told {
		return told{status, problem(status, code).body, change}
	}
	for name, answer := range map[string]told{
		"unsigned":              forged(withoutSignature),
		"a probe":               forged(probe),
		"stale":                 forged(stale),
		"another key":           forged(func(h http.Header) { h.Set("Wechatpay-Serial", "PUB_KEY_ID_9") }),
		"no code":               {status: http.StatusOK, body: `{}`},
		"an empty code":         {status: http.StatusOK, body: `{"code_url":""}`},
		"null":                  {status: http.StatusOK, body: `null`},
		"empty":                 {status: http.StatusOK},
		"no content":            {status: http.StatusNoContent},
		"a page":                {status: http.StatusBadGateway, body: `<html>502</html>`, forge: withoutSignature},
		"unsigned refusal":      refusal(http.StatusBadRequest, "PARAM_ERROR", withoutSignature),
		"refusal like a probe":  refusal(http.StatusBadRequest, "PARAM_ERROR", probe),
		"refusal, other body":   refusal(http.StatusBadRequest, "PARAM_ERROR", stale),
		"rate, badly signed":    refusal(http.StatusTooManyRequests, "FREQUENCY_LIMITED", probe),
		"unknown code":          problem(http.StatusBadRequest, "SOMETHING_NEW"),
		"found":                 {status: http.StatusFound, forge: func(h http.Header) { h.Set("Location", "http://127.0.0.1:1/") }},
		"temporary redirect":    {status: http.StatusTemporaryRedirect, forge: func(h http.Header) { h.Set("Location", "http://127.0.0.1:1/") }},
		"gateway without code":  {status: http.StatusTooManyRequests, forge: withoutSignature},
		"not the code's string": {status: http.StatusBadRequest, body: `{"code":5}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, map[string]told{"POST /v3/pay/transactions/native": answer})
			result := s.provider.Charge(t.Context(), order("order-1", 1000))
			require.Equal(t, psp.InDoubt, result.Verdict, "%+v", result)
			require.Len(t, s.requests(), 1)
		})
	}
}

// The SDK lets the body of a refusal overwrite what it read of the answer: a
// genuine signature inside the body must not pass for that of the body.
func TestRefusalThatCarriesAnotherAnswer(t *testing.T) {
	t.Parallel()
	inner := `{"code":"PARAM_ERROR"}`
	header, err := json.Marshal(signedHeader(t, inner, time.Now()))
	require.NoError(t, err)
	body := fmt.Sprintf(`{"code":"ORDER_NOT_EXIST","Body":%q,"Header":%s,"StatusCode":404}`, inner, header)
	s := newServer(t, map[string]told{
		"GET /v3/pay/transactions": {status: http.StatusBadRequest, body: body, forge: withoutSignature},
	})
	require.Equal(t, psp.InDoubt, s.provider.Query(t.Context(), trade("order-1", 1000)).Verdict)

	s = newServer(t, map[string]told{
		"GET /v3/pay/transactions": {status: http.StatusBadRequest, body: `{"code":"ORDER_NOT_EXIST","StatusCode":404}`},
	})
	require.Equal(t, psp.InDoubt, s.provider.Query(t.Context(), trade("order-1", 1000)).Verdict, "nor is the status the body's")
}

// At the gate WeChat Pay signs nothing.
func TestUnsignedRefusalAtTheGate(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"SIGN_ERROR", "SOMETHING_NEW"} {
		answer := problem(http.StatusUnauthorized, code)
		answer.forge = withoutSignature
		s := newServer(t, map[string]told{"POST /v3/": answer, "GET /v3/": answer})
		require.Equal(t, psp.Transient, s.provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
		require.Equal(t, psp.Transient, s.provider.Refund(t.Context(), refundOf("r1", 1)).Verdict)
		require.Equal(t, psp.InDoubt, s.provider.Query(t.Context(), trade("order-1", 1000)).Verdict)
	}
}

// A refused query says nothing about the money, whatever the code means for a
// charge.
func TestRefusedQueryIsInDoubt(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"PARAM_ERROR", "NO_AUTH", "SIGN_ERROR", "FREQUENCY_LIMITED", "ORDERPAID"} {
		s := newServer(t, map[string]told{"GET /v3/": problem(http.StatusBadRequest, code)})
		require.Equal(t, psp.InDoubt, s.provider.Query(t.Context(), trade("order-1", 1000)).Verdict, code)
		require.Equal(t, psp.InDoubt, s.provider.QueryRefund(t.Context(), refundOf("r1", 1)).Verdict, code)
	}
	unsigned := problem(http.StatusNotFound, "ORDER_NOT_EXIST")
	unsigned.forge = withoutSignature
	s := newServer(t, map[string]told{"GET /v3/": unsigned})
	require.Equal(t, psp.InDoubt, s.provider.Query(t.Context(), trade("order-1", 1000)).Verdict,
		"that there is no such order is believed only when it is signed")
}

func TestCloseOrders(t *testing.T) {
	t.Parallel()
	provider, simulator, server := setup(t, func(_ *wechat.Config, o *pspsim.Options) { o.ManualBuyer = true })
	require.Equal(t, psp.NotFound, provider.Close(t.Context(), trade("order-1", 1000)).Verdict)
	provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Terminal, provider.Close(t.Context(), trade("order-1", 1000)).Verdict)
	require.Equal(t, psp.Terminal, provider.Close(t.Context(), trade("order-1", 1000)).Verdict, "closed again")
	asked := provider.Query(t.Context(), trade("order-1", 1000))
	require.Equal(t, psp.Terminal, asked.Verdict)
	require.Equal(t, "CLOSED", asked.Code)
	closed := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Terminal, closed.Verdict)
	require.Equal(t, "ORDER_CLOSED", closed.Code)

	provider.Charge(t.Context(), order("order-2", 1000))
	post(t, server.URL+"/buyer", `{"provider":"wechat","out_trade_no":"order-2","action":"pay"}`, nil)
	late := provider.Close(t.Context(), trade("order-2", 1000))
	require.Equal(t, psp.Succeeded, late.Verdict, "the buyer was faster")
	require.Equal(t, cny(1000), late.Paid)
	require.Len(t, simulator.Ledger(), 1)
}

// A trade that was refunded was paid.
func TestRefundedOrderWasPaid(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Pending, provider.Refund(t.Context(), refundOf("r1", 1000)).Verdict)
	asked := provider.Query(t.Context(), trade("order-1", 1000))
	require.Equal(t, psp.Succeeded, asked.Verdict)
	require.Equal(t, "REFUND", asked.Code)
	require.Equal(t, cny(1000), asked.Paid)
}
