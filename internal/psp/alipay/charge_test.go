package alipay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/alipay"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	tests := map[string]struct {
		change func(*psp.ChargeRequest)
		field  string
	}{
		"fine":                {func(*psp.ChargeRequest) {}, ""},
		"64 characters":       {func(r *psp.ChargeRequest) { r.OrderID = strings.Repeat("o", 64) }, ""},
		"65 characters":       {func(r *psp.ChargeRequest) { r.OrderID = strings.Repeat("o", 65) }, "order_id"},
		"no order id":         {func(r *psp.ChargeRequest) { r.OrderID = "" }, "order_id"},
		"a space":             {func(r *psp.ChargeRequest) { r.OrderID = "order 1" }, "order_id"},
		"largest amount":      {func(r *psp.ChargeRequest) { r.Money = cny(100_000_000_00) }, ""},
		"above it":            {func(r *psp.ChargeRequest) { r.Money = cny(100_000_000_01) }, "amount"},
		"zero":                {func(r *psp.ChargeRequest) { r.Money = cny(0) }, "amount"},
		"dollars":             {func(r *psp.ChargeRequest) { r.Money.Currency = "USD" }, "currency"},
		"256 characters":      {func(r *psp.ChargeRequest) { r.Subject = strings.Repeat("茶", 256) }, ""},
		"257 characters":      {func(r *psp.ChargeRequest) { r.Subject = strings.Repeat("茶", 257) }, "subject"},
		"a slash":             {func(r *psp.ChargeRequest) { r.Subject = "a/b" }, "subject"},
		"unknown field":       {func(r *psp.ChargeRequest) { r.Fields = map[string]string{"colour": "red"} }, "colour"},
		"unknown method":      {func(r *psp.ChargeRequest) { r.Method = "cash" }, "method"},
		"a code too many":     {func(r *psp.ChargeRequest) { r.Method, r.Fields = "native", map[string]string{"auth_code": "28"} }, "auth_code"},
		"a field too long":    {func(r *psp.ChargeRequest) { r.Fields = map[string]string{"buyer_id": strings.Repeat("2", 29)} }, "buyer_id"},
		"pay without a code":  {func(r *psp.ChargeRequest) { r.Method = "pay" }, "auth_code"},
		"pay with a code":     {func(r *psp.ChargeRequest) { r.Fields = map[string]string{"auth_code": "28"} }, ""},
		"the buyer is chosen": {func(r *psp.ChargeRequest) { r.Fields = map[string]string{"buyer_id": "2088"} }, ""},
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

func TestChargeByEachMethod(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	tests := map[string]struct {
		request psp.ChargeRequest
		verdict psp.Verdict
		next    string
	}{
		"create":    {request: order("create-1", 1), verdict: psp.Pending},
		"auth code": {request: psp.ChargeRequest{OrderID: "pay-1", Money: cny(1050), Fields: map[string]string{"auth_code": "28763443825664394"}}, verdict: psp.Succeeded},
		"precreate": {request: psp.ChargeRequest{OrderID: "pre-1", Money: cny(99999999_99), Method: "precreate"}, verdict: psp.Pending, next: "code_url"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, provider.Validate(test.request))
			result := provider.Charge(t.Context(), test.request)
			require.Equal(t, test.verdict, result.Verdict, "%+v", result)
			if test.verdict == psp.Succeeded {
				require.Equal(t, test.request.Money, result.Paid)
			}
			if test.next != "" {
				require.NotEmpty(t, result.Next[test.next])
			}
			asked := provider.Query(t.Context(), trade(test.request.OrderID, 0))
			require.Equal(t, psp.Succeeded, asked.Verdict)
			require.Equal(t, test.request.Money, asked.Paid)
		})
	}
	require.Len(t, simulator.Ledger(), len(tests))
}

// Every amount goes to Alipay in yuan and comes back in fen.
func TestAmountsToTheLastFen(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	for i, fen := range []int64{1, 9, 10, 99, 100, 101, 1050, 99_999, 12_345_678_90, 99_999_999_99, 100_000_000_00} {
		request := order(fmt.Sprintf("amount_%d", i), fen)
		request.Fields = map[string]string{"auth_code": "28763443825664394"}
		require.NoError(t, provider.Validate(request))
		result := provider.Charge(t.Context(), request)
		require.Equal(t, psp.Succeeded, result.Verdict, "%+v", result)
		require.Equal(t, cny(fen), result.Paid)
		require.Equal(t, fen, simulator.Ledger()[i].Amount)
	}
}

func TestRequestFields(t *testing.T) {
	t.Parallel()
	g := newGateway(t, map[string]string{
		"alipay.trade.create":    `{"code":"10000","trade_no":"1"}`,
		"alipay.trade.precreate": `{"code":"10000","qr_code":"https://qr.alipay.com/1"}`,
	})
	request := order("order_1", 1050)
	request.Subject, request.NotifyURL = "", "https://shop.example/notify"
	request.Fields = map[string]string{"buyer_open_id": "074a1Cc", "op_app_id": "2021", "product_code": "JSAPI_PAY"}
	require.NoError(t, g.provider.Validate(request))
	require.Equal(t, psp.Pending, g.provider.Charge(t.Context(), request).Verdict)
	scanned := order("order_2", 1)
	scanned.Method = "native"
	require.NoError(t, g.provider.Validate(scanned))
	require.Equal(t, "https://qr.alipay.com/1", g.provider.Charge(t.Context(), scanned).Next["code_url"])

	sent := g.requests()[0]
	require.Equal(t, "https://shop.example/notify", sent.Get("notify_url"))
	_, beijing := time.Now().In(time.FixedZone("", 8*60*60)).Zone()
	at, err := time.ParseInLocation(time.DateTime, sent.Get("timestamp"), time.FixedZone("", beijing))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Minute, "Alipay's clock is Beijing's")
	var content map[string]string
	require.NoError(t, json.Unmarshal([]byte(sent.Get("biz_content")), &content))
	for name, value := range map[string]string{
		"out_trade_no": "order_1", "total_amount": "10.50", "subject": "order_1", "buyer_open_id": "074a1Cc",
		"op_app_id": "2021", "product_code": "JSAPI_PAY",
	} {
		require.Equal(t, value, content[name], name)
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	require.Equal(t, psp.Pending, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)

	again := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Succeeded, again.Verdict, "already paid becomes the success that it is")
	require.Equal(t, cny(1000), again.Paid)

	other := provider.Charge(t.Context(), order("order-1", 2000))
	require.Equal(t, psp.Terminal, other.Verdict)
	require.Equal(t, "ACQ.CONTEXT_INCONSISTENT", other.Code)
	require.Len(t, simulator.Ledger(), 1)
}

// A drop after the money moved: the query finds it, and the same charge again
// is the success that it is, once.
func TestDropAfterTheMoneyMoved(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "charge", Fault: "drop_after"}))
	dropped := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.InDoubt, dropped.Verdict)
	require.Error(t, dropped.Err)
	asked := provider.Query(t.Context(), trade("order-1", 1000))
	require.Equal(t, psp.Succeeded, asked.Verdict)
	require.Equal(t, cny(1000), asked.Paid)
	require.NotEmpty(t, asked.TradeNo)
	require.Equal(t, psp.Succeeded, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
	require.Len(t, simulator.Ledger(), 1)
}

// What a charge that Alipay says is paid becomes follows from the query alone.
func TestPaidAlready(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		query   string
		verdict psp.Verdict
	}{
		"paid":             {`{"code":"10000","trade_status":"TRADE_SUCCESS","total_amount":"10.00"}`, psp.Succeeded},
		"paid differently": {`{"code":"10000","trade_status":"TRADE_SUCCESS","total_amount":"0.01"}`, psp.Succeeded},
		"unreadable":       {`{"code":"10000","trade_status":"TRADE_SUCCESS","total_amount":"1e3"}`, psp.InDoubt},
		"no such trade":    {`{"code":"40004","sub_code":"ACQ.TRADE_NOT_EXIST"}`, psp.InDoubt},
		"query fails":      {`{"code":"20000","sub_code":"isp.unknow-error"}`, psp.InDoubt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, map[string]string{
				"alipay.trade.create": `{"code":"40004","sub_code":"ACQ.TRADE_HAS_SUCCESS"}`, "alipay.trade.query": test.query,
			})
			result := g.provider.Charge(t.Context(), order("order-1", 1000))
			require.Equal(t, test.verdict, result.Verdict, "%+v", result)
			if name == "paid differently" {
				require.Equal(t, cny(1), result.Paid, "for the caller to compare")
			}
		})
	}
}

// A buyer's code that is used up may have been used up by this very order.
func TestUsedUpCodeIsLookedUp(t *testing.T) {
	t.Parallel()
	for query, verdict := range map[string]psp.Verdict{
		`{"code":"10000","trade_status":"TRADE_SUCCESS","total_amount":"10.00"}`: psp.Succeeded,
		`{"code":"10000","trade_status":"WAIT_BUYER_PAY"}`:                       psp.Pending,
		`{"code":"40004","sub_code":"ACQ.TRADE_NOT_EXIST"}`:                      psp.Terminal,
		`{"code":"20000","sub_code":"isp.unknow-error"}`:                         psp.InDoubt,
	} {
		g := newGateway(t, map[string]string{
			"alipay.trade.pay": `{"code":"40004","sub_code":"ACQ.PAYMENT_AUTH_CODE_INVALID"}`, "alipay.trade.query": query,
		})
		request := order("order-1", 1000)
		request.Fields = map[string]string{"auth_code": "28763443825664394"}
		require.Equal(t, verdict, g.provider.Charge(t.Context(), request).Verdict, query)
	}
}

func TestWaitingForThePassword(t *testing.T) {
	t.Parallel()
	g := newGateway(t, map[string]string{"alipay.trade.pay": `{"code":"10003","trade_no":"7"}`})
	request := order("order-1", 1000)
	request.Fields = map[string]string{"auth_code": "28763443825664394"}
	result := g.provider.Charge(t.Context(), request)
	require.Equal(t, psp.Pending, result.Verdict)
	require.Equal(t, "7", result.TradeNo)
}

func TestFaultsAreJudgedByTheMoney(t *testing.T) {
	t.Parallel()
	tests := []struct {
		op, fault string
		charge    psp.Verdict
		moved     int
	}{
		{"charge", "error_before", psp.InDoubt, 0},
		{"charge", "error_after", psp.InDoubt, 1},
		{"charge", "drop_after", psp.InDoubt, 1},
		{"charge", "decline", psp.Terminal, 0},
		{"charge", "delay", psp.Pending, 1},
	}
	for _, test := range tests {
		t.Run(test.fault, func(t *testing.T) {
			t.Parallel()
			provider, simulator, _ := setup(t, nil)
			require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "alipay", Op: test.op, Fault: test.fault, DelayMS: 1}))
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
		require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "query", Fault: fault}))
		require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order-1", 1000)).Verdict, fault)
	}
}

// A refused query says nothing about the trade, whatever the code means for a
// charge.
func TestRefusedQueryIsInDoubt(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"ACQ.INVALID_PARAMETER", "ACQ.ACCESS_FORBIDDEN", "isv.invalid-signature", "isv.app-call-limited"} {
		node := fmt.Sprintf(`{"code":"40004","sub_code":%q}`, code)
		g := newGateway(t, map[string]string{"alipay.trade.query": node, "alipay.trade.fastpay.refund.query": node})
		require.Equal(t, psp.InDoubt, g.provider.Query(t.Context(), trade("order-1", 1000)).Verdict, code)
		require.Equal(t, psp.InDoubt, g.provider.QueryRefund(t.Context(), refundOf("r1", 1)).Verdict, code)
	}
}

func TestTimeoutIsInDoubt(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "charge", Fault: "delay", DelayMS: 60_000}))
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
	result := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Transient, result.Verdict)
	require.ErrorIs(t, result.Err, psp.ErrUnsent)
	require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order-1", 1000)).Verdict,
		"a query that was never sent tells nothing about the money")
}

func TestUnbelievedAnswersAreInDoubt(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"error_response":null}`, `{"alipay_trade_create_response":null}`, `{"alipay_trade_create_response":null,"sign":"` + signed(t, "null") + `"}`,
		`{"alipay_trade_create_response":{"code":"10000","trade_no":"unsigned"}}`,
		`{"alipay_trade_create_response":{"code":"40004","sub_code":"ACQ.TRADE_HAS_CLOSE"}}`,
		`{"alipay_trade_create_response":{"code":"10000","trade_no":"1"},"sign":"` + signed(t, "another text") + `"}`,
		`{"alipay_trade_create_response":{"code":"40004","sub_code":"ACQ.SOMETHING_NEW"}}`,
		`{"alipay_trade_create_response":{"code":"50000"}}`,
		`{"error_response":{"code":"40004","sub_code":"ACQ.SOMETHING_NEW"}}`,
		`{}`, ``, `<html>502 Bad Gateway</html>`,
	} {
		g := newRawGateway(t, func(string) string { return body })
		require.Equal(t, psp.InDoubt, g.provider.Charge(t.Context(), order("order-1", 1000)).Verdict, body)
	}
}

func TestHTTPErrorsAreInDoubt(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusBadGateway, http.StatusTooManyRequests} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
		}))
		t.Cleanup(server.Close)
		provider := newForPlatform(t, server.URL, "")
		require.Equal(t, psp.InDoubt, provider.Charge(t.Context(), order("order-1", 1000)).Verdict, status)
	}
}

func TestUnpaidAndClosedTrades(t *testing.T) {
	t.Parallel()
	provider, _, server := setup(t, func(_ *alipay.Config, o *pspsim.Options) { o.ManualBuyer = true })
	require.Equal(t, psp.Pending, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
	require.Equal(t, psp.Pending, provider.Query(t.Context(), trade("order-1", 1000)).Verdict)
	post(t, server.URL+"/buyer", `{"provider":"alipay","out_trade_no":"order-1","action":"cancel"}`, nil)
	asked := provider.Query(t.Context(), trade("order-1", 1000))
	require.Equal(t, psp.Terminal, asked.Verdict)
	require.Equal(t, "TRADE_CLOSED", asked.Code)
	closed := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Terminal, closed.Verdict)
	require.Equal(t, "ACQ.TRADE_HAS_CLOSE", closed.Code)
}

// A trade that was refunded in full is closed too, but its money did move.
func TestRefundedTradeWasPaid(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r1", 1000)).Verdict)
	asked := provider.Query(t.Context(), trade("order-1", 1000))
	require.Equal(t, psp.Succeeded, asked.Verdict)
	require.Equal(t, "TRADE_CLOSED", asked.Code)
	require.Equal(t, cny(1000), asked.Paid)
	require.Contains(t, asked.Message, "refunded in full")
}
