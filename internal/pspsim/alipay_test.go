package pspsim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	sdk "github.com/smartwalle/alipay/v3"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/pspsim"
)

// alipayClient is Alipay's protocol as an independent library speaks it.
func (f *fixture) alipayClient(t *testing.T, change func(*pspsim.Keys)) *sdk.Client {
	t.Helper()
	keys := *f.keys
	if change != nil {
		change(&keys)
	}
	client, err := sdk.New(keys.AlipayAppID, keys.AlipayMerchantPrivateKey, true,
		sdk.WithProductionGateway(f.url+"/alipay/gateway.do"))
	require.NoError(t, err)
	require.NoError(t, client.LoadAliPayPublicKey(keys.AlipayPublicKey))
	return client
}

func alipayTrade(orderID string, fen int64) sdk.Trade {
	yuan, _ := money.Money{Amount: fen, Currency: "CNY"}.Decimal()
	return sdk.Trade{OutTradeNo: orderID, Subject: "Tea & <cake>", TotalAmount: yuan}
}

func (f *fixture) alipayCreate(t *testing.T, orderID string, fen int64) *sdk.TradeCreateRsp {
	t.Helper()
	answer, err := f.alipayClient(t, nil).TradeCreate(t.Context(), sdk.TradeCreate{Trade: alipayTrade(orderID, fen)})
	require.NoError(t, err)
	return answer
}

func (f *fixture) alipayQuery(t *testing.T, orderID string) *sdk.TradeQueryRsp {
	t.Helper()
	answer, err := f.alipayClient(t, nil).TradeQuery(t.Context(), sdk.TradeQuery{OutTradeNo: orderID})
	require.NoError(t, err)
	return answer
}

func quoted(t *testing.T, moment time.Time) string {
	t.Helper()
	text, err := json.Marshal(moment)
	require.NoError(t, err)
	return string(text)
}

func TestAlipayChargeIsPaidAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.alipayClient(t, nil)

	created := f.alipayCreate(t, "created", 1050)
	require.Equal(t, sdk.CodeSuccess, created.Code)
	require.NotEmpty(t, created.TradeNo)

	paid, err := client.TradePay(t.Context(), sdk.TradePay{Trade: alipayTrade("paid", 1), Scene: "bar_code", AuthCode: "28763443825664394"})
	require.NoError(t, err)
	require.Equal(t, sdk.CodeSuccess, paid.Code)
	require.Equal(t, "0.01", paid.TotalAmount)

	scanned, err := client.TradePreCreate(t.Context(), sdk.TradePreCreate{Trade: alipayTrade("scanned", 10_000_000_000)})
	require.NoError(t, err)
	require.Equal(t, sdk.CodeSuccess, scanned.Code)
	require.NotEmpty(t, scanned.QRCode)

	for orderID, amount := range map[string]string{"created": "10.50", "paid": "0.01", "scanned": "100000000.00"} {
		found := f.alipayQuery(t, orderID)
		require.Equal(t, sdk.TradeStatusSuccess, found.TradeStatus)
		require.Equal(t, amount, found.TotalAmount)
	}
	require.Len(t, f.sim.Ledger(), 3)
	byTradeNo, err := client.TradeQuery(t.Context(), sdk.TradeQuery{TradeNo: created.TradeNo, OutTradeNo: "paid"})
	require.NoError(t, err)
	require.Equal(t, "created", byTradeNo.OutTradeNo, "trade_no goes before out_trade_no")
}

func TestAlipayDuplicates(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{ManualBuyer: true})
	first := f.alipayCreate(t, "order-1", 100)
	again := f.alipayCreate(t, "order-1", 100)
	require.Equal(t, sdk.CodeSuccess, again.Code)
	require.Equal(t, first.TradeNo, again.TradeNo)
	require.Equal(t, "ACQ.CONTEXT_INCONSISTENT", f.alipayCreate(t, "order-1", 101).SubCode)

	f.control("/buyer", `{"provider":"alipay","out_trade_no":"order-1","action":"pay"}`)
	require.Equal(t, "ACQ.TRADE_HAS_SUCCESS", f.alipayCreate(t, "order-1", 100).SubCode)

	f.alipayCreate(t, "order-2", 100)
	f.control("/buyer", `{"provider":"alipay","out_trade_no":"order-2","action":"cancel"}`)
	require.Equal(t, "ACQ.TRADE_HAS_CLOSE", f.alipayCreate(t, "order-2", 100).SubCode)
	require.Equal(t, "ACQ.TRADE_NOT_EXIST", f.alipayQuery(t, "order-3").SubCode)
	require.Equal(t, sdk.CodeBusinessFailed, f.alipayQuery(t, "order-3").Code)
	require.Equal(t, []string{"charge 100 CNY"}, f.moved("alipay", "order-1"))
}

func TestAlipayParallelCreatesChargeOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.alipayClient(t, nil)
	codes := make([]string, 20)
	var calls sync.WaitGroup
	for i := range codes {
		calls.Go(func() {
			answer, err := client.TradeCreate(t.Context(), sdk.TradeCreate{Trade: alipayTrade("order-1", 100)})
			if err == nil {
				codes[i] = string(answer.Code) + answer.SubCode
			}
		})
	}
	calls.Wait()
	counts := map[string]int{}
	for _, code := range codes {
		counts[code]++
	}
	require.Equal(t, map[string]int{"10000": 1, "40004ACQ.TRADE_HAS_SUCCESS": 19}, counts)
	require.Equal(t, []string{"charge 100 CNY"}, f.moved("alipay", "order-1"))
}

func TestAlipayManualBuyerAndClosing(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{ManualBuyer: true})
	client := f.alipayClient(t, nil)
	pay := sdk.TradePay{Trade: alipayTrade("order-1", 100), Scene: "bar_code", AuthCode: "28763443825664394"}
	asked, err := client.TradePay(t.Context(), pay)
	require.NoError(t, err)
	require.Equal(t, sdk.Code("10003"), asked.Code)
	require.Equal(t, sdk.TradeStatusWaitBuyerPay, f.alipayQuery(t, "order-1").TradeStatus)
	require.Empty(t, f.sim.Ledger())

	closed, err := client.TradeClose(t.Context(), sdk.TradeClose{OutTradeNo: "order-1"})
	require.NoError(t, err)
	require.Equal(t, sdk.CodeSuccess, closed.Code)
	require.Equal(t, sdk.TradeStatusClosed, f.alipayQuery(t, "order-1").TradeStatus)
	closed, err = client.TradeClose(t.Context(), sdk.TradeClose{OutTradeNo: "order-1"})
	require.NoError(t, err)
	require.Equal(t, "ACQ.TRADE_STATUS_ERROR", closed.SubCode)
	refunded, err := client.TradeRefund(t.Context(), sdk.TradeRefund{OutTradeNo: "order-1", RefundAmount: "1.00"})
	require.NoError(t, err)
	require.Equal(t, "ACQ.TRADE_STATUS_ERROR", refunded.SubCode)
}

func TestAlipayCancel(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.alipayClient(t, nil)
	cancel := func(orderID string) *sdk.TradeCancelRsp {
		answer, err := client.TradeCancel(t.Context(), sdk.TradeCancel{OutTradeNo: orderID})
		require.NoError(t, err)
		require.Equal(t, sdk.CodeSuccess, answer.Code)
		return answer
	}
	require.Empty(t, cancel("unknown").Action)
	f.alipayCreate(t, "order-1", 100)
	require.Equal(t, "refund", cancel("order-1").Action)
	require.Equal(t, "refund", cancel("order-1").Action)
	require.Equal(t, []string{"charge 100 CNY", "refund 100 CNY"}, f.moved("alipay", "order-1"))
	require.Equal(t, sdk.TradeStatusClosed, f.alipayQuery(t, "order-1").TradeStatus)
}

func TestAlipayRefunds(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.alipayClient(t, nil)
	refund := func(number, yuan string) *sdk.TradeRefundRsp {
		answer, err := client.TradeRefund(t.Context(), sdk.TradeRefund{OutTradeNo: "order-1", OutRequestNo: number, RefundAmount: yuan})
		require.NoError(t, err)
		return answer
	}
	require.Equal(t, "ACQ.TRADE_NOT_EXIST", refund("r1", "0.30").SubCode)
	f.alipayCreate(t, "order-1", 100)

	require.Equal(t, "Y", refund("r1", "0.30").FundChange)
	again := refund("r1", "0.30")
	require.Equal(t, "N", again.FundChange, "the same out_request_no is the same refund")
	require.Equal(t, "0.30", again.RefundFee)
	require.Equal(t, "ACQ.DISCORDANT_REPEAT_REQUEST", refund("r1", "0.31").SubCode)
	require.Equal(t, "ACQ.REFUND_AMT_NOT_EQUAL_TOTAL", refund("", "0.70").SubCode)
	require.Equal(t, "ACQ.REASON_TRADE_REFUND_FEE_ERR", refund("r2", "0.71").SubCode)
	require.Equal(t, sdk.TradeStatusSuccess, f.alipayQuery(t, "order-1").TradeStatus)
	require.Equal(t, "1.00", refund("r2", "0.70").RefundFee, "all that was refunded")
	require.Equal(t, sdk.TradeStatusClosed, f.alipayQuery(t, "order-1").TradeStatus)
	require.Equal(t, []string{"charge 100 CNY", "refund 30 CNY", "refund 70 CNY"}, f.moved("alipay", "order-1"))

	query := func(number string) *sdk.TradeFastPayRefundQueryRsp {
		answer, err := client.TradeFastPayRefundQuery(t.Context(), sdk.TradeFastPayRefundQuery{OutTradeNo: "order-1", OutRequestNo: number})
		require.NoError(t, err)
		require.Equal(t, sdk.CodeSuccess, answer.Code)
		return answer
	}
	require.Equal(t, "REFUND_SUCCESS", query("r2").RefundStatus)
	require.Equal(t, "0.70", query("r2").RefundAmount)
	require.Empty(t, query("never-made").RefundStatus)
}

func TestAlipayFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		op, fault string
		subCode   string
		cut       bool
		moved     []string // what the armed call itself moved
	}{
		{op: "charge", fault: "error_before", subCode: "aop.ACQ.SYSTEM_ERROR"},
		{op: "charge", fault: "error_after", subCode: "aop.ACQ.SYSTEM_ERROR", moved: []string{"charge 100 CNY"}},
		{op: "charge", fault: "drop_after", cut: true, moved: []string{"charge 100 CNY"}},
		{op: "charge", fault: "delay", moved: []string{"charge 100 CNY"}},
		{op: "charge", fault: "decline", subCode: "ACQ.BUYER_BALANCE_NOT_ENOUGH"},
		{op: "query", fault: "error_before", subCode: "aop.ACQ.SYSTEM_ERROR"},
		{op: "query", fault: "error_after", subCode: "aop.ACQ.SYSTEM_ERROR"},
		{op: "query", fault: "drop_after", cut: true},
		{op: "query", fault: "delay"},
		{op: "refund", fault: "error_before", subCode: "aop.ACQ.SYSTEM_ERROR"},
		{op: "refund", fault: "error_after", subCode: "aop.ACQ.SYSTEM_ERROR", moved: []string{"refund 40 CNY"}},
		{op: "refund", fault: "drop_after", cut: true, moved: []string{"refund 40 CNY"}},
		{op: "refund", fault: "delay", moved: []string{"refund 40 CNY"}},
		{op: "refund", fault: "decline", subCode: "ACQ.SELLER_BALANCE_NOT_ENOUGH"},
	} {
		t.Run(test.op+"/"+test.fault, func(t *testing.T) {
			t.Parallel()
			f := setup(t, pspsim.Options{})
			client := f.alipayClient(t, nil)
			call := map[string]func() (sdk.Error, error){
				"charge": func() (sdk.Error, error) {
					answer, err := client.TradeCreate(t.Context(), sdk.TradeCreate{Trade: alipayTrade("order-1", 100)})
					if err != nil {
						return sdk.Error{}, err
					}
					return answer.Error, nil
				},
				"query": func() (sdk.Error, error) {
					answer, err := client.TradeQuery(t.Context(), sdk.TradeQuery{OutTradeNo: "order-1"})
					if err != nil {
						return sdk.Error{}, err
					}
					return answer.Error, nil
				},
				"refund": func() (sdk.Error, error) {
					answer, err := client.TradeRefund(t.Context(), sdk.TradeRefund{OutTradeNo: "order-1", OutRequestNo: "r1", RefundAmount: "0.40"})
					if err != nil {
						return sdk.Error{}, err
					}
					return answer.Error, nil
				},
			}
			if test.op != "charge" {
				f.alipayCreate(t, "order-1", 100)
			}
			before := len(f.moved("alipay", "order-1"))
			require.NoError(t, f.sim.Arm(pspsim.Fault{Provider: "alipay", Op: test.op, Fault: test.fault, DelayMS: 1}))
			got, err := call[test.op]()
			require.Equal(t, test.cut, err != nil, "%v", err)
			require.Equal(t, test.subCode, got.SubCode)
			require.Equal(t, test.moved, append([]string(nil), f.moved("alipay", "order-1")[before:]...))
		})
	}
}

func TestAlipayRefusesWhatIsNotSignedRight(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	other := keysOf(t, otherKeys)
	for name, test := range map[string]struct {
		change  func(*pspsim.Keys)
		subCode string
	}{
		"other key": {func(k *pspsim.Keys) { k.AlipayMerchantPrivateKey = other.AlipayMerchantPrivateKey }, "isv.invalid-signature"},
		"other app": {func(k *pspsim.Keys) { k.AlipayAppID = "2021000000000999" }, "isv.invalid-app-id"},
	} {
		_, err := f.alipayClient(t, test.change).TradeCreate(t.Context(), sdk.TradeCreate{Trade: alipayTrade("order-1", 100)})
		var problem *sdk.Error
		require.True(t, errors.As(err, &problem), name)
		require.Equal(t, sdk.Code("40002"), problem.Code)
		require.Equal(t, test.subCode, problem.SubCode)
	}
	// The client in turn refuses answers that another key signed.
	_, err := f.alipayClient(t, func(k *pspsim.Keys) { k.AlipayPublicKey = other.AlipayPublicKey }).
		TradeQuery(t.Context(), sdk.TradeQuery{OutTradeNo: "order-1"})
	require.Error(t, err)
	require.Empty(t, f.sim.Ledger())
}

// Every parameter is covered by the signature, and those that the gateway
// wants are looked at before it.
func TestAlipayChecksEachParameter(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	form, err := f.alipayClient(t, nil).URLValues(sdk.TradeCreate{Trade: alipayTrade("order-1", 100)})
	require.NoError(t, err)
	for _, test := range []struct{ name, value, subCode string }{
		{"method", "", "isv.missing-method"},
		{"method", "alipay.trade.steal", "isv.invalid-method"},
		{"app_id", "", "isv.missing-app-id"},
		{"sign", "", "isv.missing-signature"},
		{"sign", "bm90IGEgc2lnbmF0dXJl", "isv.invalid-signature"},
		{"sign", "not base64", "isv.invalid-signature"},
		{"sign_type", "", "isv.missing-signature-type"},
		{"sign_type", "RSA", "isv.invalid-signature-type"},
		{"timestamp", "", "isv.missing-timestamp"},
		{"timestamp", "yesterday", "isv.invalid-timestamp"},
		{"version", "", "isv.missing-version"},
		{"version", "2.0", "isv.invalid-parameter"},
		{"charset", "gbk", "isv.invalid-charset"},
		{"notify_url", "http://evil.example", "isv.invalid-signature"},
		{"biz_content", `{"out_trade_no":"order-1","subject":"Tea","total_amount":"0.01"}`, "isv.invalid-signature"},
	} {
		changed := url.Values{}
		for name, values := range form {
			changed[name] = values
		}
		changed.Set(test.name, test.value)
		_, _, answer := f.send(http.MethodPost, "/alipay/gateway.do", formHeader(), changed.Encode())
		require.Contains(t, answer, fmt.Sprintf("%q:%q", "sub_code", test.subCode), test.name)
		require.NotContains(t, answer, `"sign"`, "the gateway's own refusals are unsigned")
	}
	require.Empty(t, f.sim.Ledger())
	status, header, answer := f.send(http.MethodGet, "/alipay/gateway.do?"+form.Encode(), nil, "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "text/html;charset=utf-8", header.Get("Content-Type"))
	require.Contains(t, answer, `"alipay_trade_create_response":{"code":"10000"`)
	require.Len(t, f.sim.Ledger(), 1)
}

func formHeader() http.Header {
	return http.Header{"Content-Type": {"application/x-www-form-urlencoded;charset=utf-8"}}
}

func TestAlipayRefusesContentThatIsIncomplete(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.alipayClient(t, nil)
	for _, trade := range []sdk.Trade{
		{Subject: "Tea", TotalAmount: "1.00"},
		{OutTradeNo: "order-1", TotalAmount: "1.00"},
		{OutTradeNo: "order-1", Subject: "Tea"},
		{OutTradeNo: "order-1", Subject: "Tea", TotalAmount: "0.00"},
		{OutTradeNo: "order-1", Subject: "Tea", TotalAmount: "1.001"},
		{OutTradeNo: "order-1", Subject: "Tea", TotalAmount: "-1.00"},
	} {
		answer, err := client.TradeCreate(t.Context(), sdk.TradeCreate{Trade: trade})
		require.NoError(t, err)
		require.Equal(t, "ACQ.INVALID_PARAMETER", answer.SubCode, "%+v", trade)
	}
	unpaid, err := client.TradePay(t.Context(), sdk.TradePay{Trade: alipayTrade("order-1", 100)})
	require.NoError(t, err)
	require.Equal(t, "ACQ.PAYMENT_AUTH_CODE_INVALID", unpaid.SubCode)
	unnamed, err := client.TradeQuery(t.Context(), sdk.TradeQuery{})
	require.NoError(t, err)
	require.Equal(t, "ACQ.INVALID_PARAMETER", unnamed.SubCode)
	require.Empty(t, f.sim.Ledger())
}

// decoded verifies a notification with the SDK and reads it.
func (f *fixture) alipayDecoded(t *testing.T, got delivery) *sdk.Notification {
	t.Helper()
	form, err := url.ParseQuery(got.body)
	require.NoError(t, err)
	told, err := f.alipayClient(t, nil).DecodeNotification(form)
	require.NoError(t, err)
	require.Equal(t, f.keys.AlipayAppID, told.AppId)
	return told
}

func TestAlipayNotifiesUntilAcknowledged(t *testing.T) {
	t.Parallel()
	replies := make(chan string, 3)
	replies <- "SUCCESS"
	replies <- "success\n"
	replies <- "success"
	box := newInbox(t, func(w http.ResponseWriter, _ delivery) { _, _ = w.Write([]byte(<-replies)) })
	f := setup(t, pspsim.Options{NotifyURL: box.url + "/"})
	created := f.alipayCreate(t, "order-1", 1050)

	first := box.next(t)
	require.Equal(t, "/webhooks/alipay", first.path)
	told := f.alipayDecoded(t, first)
	require.Equal(t, sdk.TradeStatusSuccess, told.TradeStatus)
	require.Equal(t, "order-1", told.OutTradeNo)
	require.Equal(t, created.TradeNo, told.TradeNo)
	require.Equal(t, "10.50", told.TotalAmount)
	require.Equal(t, f.keys.AlipaySellerID, told.SellerId)
	require.NotEmpty(t, told.GmtPayment)
	for range 2 {
		require.Equal(t, told.NotifyId, f.alipayDecoded(t, box.next(t)).NotifyId)
	}
	f.sim.Close()
	require.Empty(t, box.deliveries, "acknowledged: not sent again")
}

func TestAlipayNotifiesTheAddressOfTheRequest(t *testing.T) {
	t.Parallel()
	box := newInbox(t, acknowledge("success"))
	f := setup(t, pspsim.Options{NotifyURL: "http://127.0.0.1:1"})
	trade := alipayTrade("order-1", 100)
	trade.NotifyURL = box.url + "/own"
	client := f.alipayClient(t, nil)
	_, err := client.TradeCreate(t.Context(), sdk.TradeCreate{Trade: trade})
	require.NoError(t, err)
	require.Equal(t, "/own", box.next(t).path)

	_, err = client.TradeRefund(t.Context(), sdk.TradeRefund{OutTradeNo: "order-1", OutRequestNo: "r1", RefundAmount: "0.40"})
	require.NoError(t, err)
	told := f.alipayDecoded(t, box.next(t))
	require.Equal(t, sdk.TradeStatusSuccess, told.TradeStatus, "a partial refund leaves the status")
	require.Equal(t, "0.40", told.RefundFee)
	require.Equal(t, "r1", told.OutBizNo)
}

func TestAlipayNotifyOnRequest(t *testing.T) {
	t.Parallel()
	box := newInbox(t, acknowledge("success"))
	f := setup(t, pspsim.Options{NotifyURL: box.url})
	f.alipayCreate(t, "order-1", 1051)
	paid := f.alipayDecoded(t, box.next(t))
	seen := map[string]bool{}
	for _, test := range []struct {
		event     string
		status    sdk.TradeStatus
		refundFee string
	}{
		{"waiting", sdk.TradeStatusWaitBuyerPay, ""},
		{"paid", sdk.TradeStatusSuccess, ""},
		{"finished", sdk.TradeStatusFinished, ""},
		{"closed", sdk.TradeStatusClosed, ""},
		{"refund_partial", sdk.TradeStatusSuccess, "5.25"},
		{"refund_full", sdk.TradeStatusClosed, "10.51"},
	} {
		acks := f.notify(fmt.Sprintf(`{"provider":"alipay","out_trade_no":"order-1","event":%q,"times":2}`, test.event))
		require.Len(t, acks, 2)
		require.Equal(t, acknowledgement{Status: 200, ContentType: "text/plain; charset=utf-8", Body: "success"}, acks[0])
		one, two := f.alipayDecoded(t, box.next(t)), f.alipayDecoded(t, box.next(t))
		require.Equal(t, one, two, "a redelivery is the same notification")
		require.Equal(t, test.status, one.TradeStatus)
		require.Equal(t, test.refundFee, one.RefundFee)
		require.False(t, seen[one.NotifyId], "another event is another notification")
		seen[one.NotifyId] = true
	}
	require.True(t, seen[paid.NotifyId], "asking for paid repeats what was sent")
	require.Equal(t, []string{"charge 1051 CNY"}, f.moved("alipay", "order-1"), "messages move no money")

	require.Len(t, f.notify(`{"provider":"alipay","out_trade_no":"order-1","event":"paid","times":25,"parallel":true}`), 25)
}
