package alipay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/alipay"
	"github.com/payonce/payonce/internal/pspsim"
)

var (
	keys      = sync.OnceValues(pspsim.NewKeys)
	otherKeys = sync.OnceValues(pspsim.NewKeys)
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

func cny(fen int64) money.Money { return money.Money{Amount: fen, Currency: "CNY"} }

func order(id string, fen int64) psp.ChargeRequest {
	return psp.ChargeRequest{OrderID: id, Attempt: 1, Money: cny(fen), Subject: "Tea"}
}

func trade(id string, fen int64) psp.Trade {
	return psp.Trade{OrderID: id, Attempt: 1, Money: cny(fen)}
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
	require.Error(t, result.Err)
}

func TestWrongKeyMaterial(t *testing.T) {
	t.Parallel()
	other, err := otherKeys()
	require.NoError(t, err)
	t.Run("ours", func(t *testing.T) {
		t.Parallel()
		provider, simulator, _ := setup(t, func(c *alipay.Config, _ *pspsim.Options) { c.PrivateKey = other.AlipayMerchantPrivateKey })
		result := provider.Charge(t.Context(), order("order-1", 1000))
		require.Equal(t, psp.Transient, result.Verdict)
		require.Equal(t, "isv.invalid-signature", result.Code)
		require.Empty(t, simulator.Ledger())
	})
	t.Run("theirs", func(t *testing.T) {
		t.Parallel()
		provider, _, _ := setup(t, func(c *alipay.Config, _ *pspsim.Options) { c.AlipayPublicKey = other.AlipayPublicKey })
		require.Equal(t, psp.InDoubt, provider.Charge(t.Context(), order("order-1", 1000)).Verdict,
			"an answer that does not verify tells nothing")
	})
	t.Run("another app", func(t *testing.T) {
		t.Parallel()
		provider, simulator, _ := setup(t, func(c *alipay.Config, _ *pspsim.Options) { c.AppID = "2021000000000999" })
		result := provider.Charge(t.Context(), order("order-1", 1000))
		require.Equal(t, psp.Transient, result.Verdict)
		require.Equal(t, "isv.invalid-app-id", result.Code)
		require.Empty(t, simulator.Ledger())
	})
}

func TestUnknownCodeIsInDoubt(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"alipay_trade_create_response":{"code":"40004","sub_code":"ACQ.SOMETHING_NEW"}}`,
		`{"alipay_trade_create_response":{"code":"50000"}}`,
		`{"error_response":{"code":"40004","sub_code":"ACQ.SOMETHING_NEW"}}`,
		`{}`, ``, `<html>502 Bad Gateway</html>`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(server.Close)
		provider, _, _ := setup(t, func(c *alipay.Config, _ *pspsim.Options) { c.GatewayURL = server.URL })
		require.Equal(t, psp.InDoubt, provider.Charge(t.Context(), order("order-1", 1000)).Verdict, body)
	}
}

func TestUnpaidAndClosedTrades(t *testing.T) {
	t.Parallel()
	provider, _, server := setup(t, func(_ *alipay.Config, o *pspsim.Options) { o.ManualBuyer = true })
	require.Equal(t, psp.Pending, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
	require.Equal(t, psp.Pending, provider.Query(t.Context(), trade("order-1", 1000)).Verdict)
	post(t, server.URL+"/buyer", `{"provider":"alipay","out_trade_no":"order-1","action":"cancel"}`, nil)
	require.Equal(t, psp.Terminal, provider.Query(t.Context(), trade("order-1", 1000)).Verdict)
	closed := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Terminal, closed.Verdict)
	require.Equal(t, "ACQ.TRADE_HAS_CLOSE", closed.Code)
}

func TestRefunds(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	provider.Charge(t.Context(), order("order-1", 1000))
	refund := func(id string, fen int64) psp.RefundRequest {
		return psp.RefundRequest{Trade: trade("order-1", 1000), RefundID: id, Money: cny(fen), Reason: "returned"}
	}
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), refund("r1", 300)).Verdict)
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refund("r1", 300)).Verdict)
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refund("r1", 300)).Verdict, "the same number is the same refund")
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refund("r2", 300)).Verdict)
	require.Equal(t, psp.Succeeded, provider.QueryRefund(t.Context(), refund("r2", 300)).Verdict)
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), refund("r3", 401)).Verdict)
	require.Len(t, simulator.Ledger(), 3)

	require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "refund", Fault: "drop_after"}))
	require.Equal(t, psp.InDoubt, provider.Refund(t.Context(), refund("r4", 100)).Verdict)
	require.Equal(t, psp.Succeeded, provider.QueryRefund(t.Context(), refund("r4", 100)).Verdict)
}

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

func TestConfigurationErrorsAndSecrets(t *testing.T) {
	t.Parallel()
	made, err := keys()
	require.NoError(t, err)
	good := alipay.Config{AppID: "1", PrivateKey: made.AlipayMerchantPrivateKey, AlipayPublicKey: made.AlipayPublicKey}
	for says, change := range map[string]func(*alipay.Config){
		"app id is missing":            func(c *alipay.Config) { c.AppID = "" },
		"private key is missing":       func(c *alipay.Config) { c.PrivateKey = "" },
		"public key is missing":        func(c *alipay.Config) { c.AlipayPublicKey = "" },
		"private key is not an RSA":    func(c *alipay.Config) { c.PrivateKey = "secret nonsense" },
		"public key is not an RSA key": func(c *alipay.Config) { c.AlipayPublicKey = "secret nonsense" },
	} {
		config := good
		change(&config)
		_, err := alipay.New(config)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "nonsense")
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("configured", "config", good)
	for _, printed := range []string{fmt.Sprintf("%v", good), fmt.Sprintf("%+v", good), fmt.Sprintf("%#v", good), log.String()} {
		require.NotContains(t, printed, "PRIVATE KEY")
	}
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
