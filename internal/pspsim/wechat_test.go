package pspsim_test

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/wechatpay-apiv3/wechatpay-go/core"
	"github.com/wechatpay-apiv3/wechatpay-go/core/auth/verifiers"
	"github.com/wechatpay-apiv3/wechatpay-go/core/notify"
	"github.com/wechatpay-apiv3/wechatpay-go/core/option"
	"github.com/wechatpay-apiv3/wechatpay-go/services/payments"
	"github.com/wechatpay-apiv3/wechatpay-go/services/payments/app"
	"github.com/wechatpay-apiv3/wechatpay-go/services/payments/h5"
	"github.com/wechatpay-apiv3/wechatpay-go/services/payments/jsapi"
	"github.com/wechatpay-apiv3/wechatpay-go/services/payments/native"
	"github.com/wechatpay-apiv3/wechatpay-go/services/refunddomestic"
	"github.com/wechatpay-apiv3/wechatpay-go/utils"

	"github.com/payonce/payonce/internal/pspsim"
)

// redirect sends requests to another place below a path: the SDK's address is
// a constant.
type redirect struct {
	to   *url.URL
	next http.RoundTripper
}

func (r redirect) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := request.Clone(request.Context())
	sent.URL = r.to.JoinPath(request.URL.EscapedPath())
	sent.URL.RawQuery = request.URL.RawQuery
	sent.Host = r.to.Host
	return r.next.RoundTrip(sent)
}

// wechatClient is WeChat Pay's protocol as its own SDK speaks it.
func (f *fixture) wechatClient(t *testing.T, change func(*pspsim.Keys)) *core.Client {
	t.Helper()
	keys := *f.keys
	if change != nil {
		change(&keys)
	}
	private, err := utils.LoadPrivateKey(keys.WeChatMerchantPrivateKey)
	require.NoError(t, err)
	to, err := url.Parse(f.url + "/wechat")
	require.NoError(t, err)
	client, err := core.NewClient(t.Context(),
		option.WithHTTPClient(&http.Client{Transport: redirect{to, http.DefaultTransport}}),
		option.WithWechatPayPublicKeyAuthCipher(keys.WeChatMchID, keys.WeChatMerchantSerial, private,
			keys.WeChatPublicKeyID, wechatPublicKey(t, &keys)),
	)
	require.NoError(t, err)
	return client
}

func wechatPublicKey(t *testing.T, keys *pspsim.Keys) *rsa.PublicKey {
	t.Helper()
	public, err := utils.LoadPublicKey(keys.WeChatPublicKey)
	require.NoError(t, err)
	return public
}

func (f *fixture) wechatNative(client *core.Client, orderID string, fen int64) (string, error) {
	answer, _, err := (&native.NativeApiService{Client: client}).Prepay(f.t.Context(), native.PrepayRequest{
		Appid: &f.keys.WeChatAppID, Mchid: &f.keys.WeChatMchID, Description: core.String("Tea"), OutTradeNo: &orderID,
		NotifyUrl: core.String("http://127.0.0.1:1/unused"), Amount: &native.Amount{Total: &fen},
	})
	if err != nil {
		return "", err
	}
	return *answer.CodeUrl, nil
}

func (f *fixture) wechatQuery(client *core.Client, orderID string) (*payments.Transaction, error) {
	found, _, err := (&native.NativeApiService{Client: client}).QueryOrderByOutTradeNo(f.t.Context(),
		native.QueryOrderByOutTradeNoRequest{OutTradeNo: &orderID, Mchid: &f.keys.WeChatMchID})
	return found, err
}

func (f *fixture) wechatRefund(client *core.Client, orderID, number string, fen, total int64) (*refunddomestic.Refund, error) {
	made, _, err := (&refunddomestic.RefundsApiService{Client: client}).Create(f.t.Context(), refunddomestic.CreateRequest{
		OutTradeNo: &orderID, OutRefundNo: &number,
		Amount: &refunddomestic.AmountReq{Refund: &fen, Total: &total, Currency: core.String("CNY")},
	})
	return made, err
}

// wechatCode is the status and code of a failure, such as "404 ORDER_NOT_EXIST".
func wechatCode(t *testing.T, err error) string {
	t.Helper()
	var problem *core.APIError
	require.True(t, errors.As(err, &problem), "%v", err)
	return fmt.Sprintf("%d %s", problem.StatusCode, problem.Code)
}

func TestWeChatOrdersArePaidAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.wechatClient(t, nil)
	notifyURL, description, total := core.String("http://127.0.0.1:1/unused"), core.String("Tea"), core.Int64(1050)

	codeURL, err := f.wechatNative(client, "native-1", 1050)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(codeURL, "weixin://wxpay/"))

	inWeChat, _, err := (&jsapi.JsapiApiService{Client: client}).Prepay(t.Context(), jsapi.PrepayRequest{
		Appid: &f.keys.WeChatAppID, Mchid: &f.keys.WeChatMchID, Description: description, OutTradeNo: core.String("jsapi-1"),
		NotifyUrl: notifyURL, Amount: &jsapi.Amount{Total: total, Currency: core.String("CNY")},
		Payer: &jsapi.Payer{Openid: core.String("oBuyer")}, Attach: core.String("attached"),
	})
	require.NoError(t, err)
	require.NotEmpty(t, *inWeChat.PrepayId)

	inApp, _, err := (&app.AppApiService{Client: client}).Prepay(t.Context(), app.PrepayRequest{
		Appid: &f.keys.WeChatAppID, Mchid: &f.keys.WeChatMchID, Description: description, OutTradeNo: core.String("app-id-1"),
		NotifyUrl: notifyURL, Amount: &app.Amount{Total: total},
	})
	require.NoError(t, err)
	require.NotEmpty(t, *inApp.PrepayId)

	inBrowser, _, err := (&h5.H5ApiService{Client: client}).Prepay(t.Context(), h5.PrepayRequest{
		Appid: &f.keys.WeChatAppID, Mchid: &f.keys.WeChatMchID, Description: description, OutTradeNo: core.String("h5|*_-1"),
		NotifyUrl: notifyURL, Amount: &h5.Amount{Total: total},
		SceneInfo: &h5.SceneInfo{PayerClientIp: core.String("127.0.0.1"), H5Info: &h5.H5Info{Type: core.String("Wap")}},
	})
	require.NoError(t, err)
	require.Contains(t, *inBrowser.H5Url, "prepay_id=")

	for orderID, tradeType := range map[string]string{"native-1": "NATIVE", "jsapi-1": "JSAPI", "app-id-1": "APP"} {
		found, err := f.wechatQuery(client, orderID)
		require.NoError(t, err)
		require.Equal(t, "SUCCESS", *found.TradeState)
		require.Equal(t, tradeType, *found.TradeType)
		require.Equal(t, int64(1050), *found.Amount.Total)
		byID, _, err := (&native.NativeApiService{Client: client}).QueryOrderById(t.Context(),
			native.QueryOrderByIdRequest{TransactionId: found.TransactionId, Mchid: &f.keys.WeChatMchID})
		require.NoError(t, err)
		require.Equal(t, orderID, *byID.OutTradeNo)
	}
	paid, err := f.wechatQuery(client, "jsapi-1")
	require.NoError(t, err)
	require.Equal(t, "oBuyer", *paid.Payer.Openid)
	require.Equal(t, "attached", *paid.Attach)
	require.Equal(t, []string{"charge 1050 CNY"}, f.moved("wechat", "h5|*_-1"))
	require.Len(t, f.sim.Ledger(), 4)
}

func TestWeChatDuplicates(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{ManualBuyer: true})
	client := f.wechatClient(t, nil)
	first, err := f.wechatNative(client, "order-1", 100)
	require.NoError(t, err)
	again, err := f.wechatNative(client, "order-1", 100)
	require.NoError(t, err)
	require.Equal(t, first, again)
	_, err = f.wechatNative(client, "order-1", 101)
	require.Equal(t, "403 OUT_TRADE_NO_USED", wechatCode(t, err))
	_, _, err = (&app.AppApiService{Client: client}).Prepay(t.Context(), app.PrepayRequest{
		Appid: &f.keys.WeChatAppID, Mchid: &f.keys.WeChatMchID, Description: core.String("Tea"), OutTradeNo: core.String("order-1"),
		NotifyUrl: core.String("http://127.0.0.1:1/unused"), Amount: &app.Amount{Total: core.Int64(100)},
	})
	require.Equal(t, "403 OUT_TRADE_NO_USED", wechatCode(t, err), "another way of paying is another request")

	unpaid, err := f.wechatQuery(client, "order-1")
	require.NoError(t, err)
	require.Equal(t, "NOTPAY", *unpaid.TradeState)
	require.Nil(t, unpaid.TransactionId)

	f.control("/buyer", `{"provider":"wechat","out_trade_no":"order-1","action":"pay"}`)
	_, err = f.wechatNative(client, "order-1", 100)
	require.Equal(t, "400 ORDERPAID", wechatCode(t, err))
	require.Equal(t, []string{"charge 100 CNY"}, f.moved("wechat", "order-1"))
}

func TestWeChatParallelOrdersChargeOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.wechatClient(t, nil)
	var calls sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		calls.Go(func() { _, errs[i] = f.wechatNative(client, "order-1", 100) })
	}
	calls.Wait()
	accepted := 0
	for _, err := range errs {
		if err == nil {
			accepted++
			continue
		}
		require.Equal(t, "400 ORDERPAID", wechatCode(t, err))
	}
	require.Equal(t, 1, accepted)
	require.Equal(t, []string{"charge 100 CNY"}, f.moved("wechat", "order-1"))
}

func TestWeChatClose(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{ManualBuyer: true})
	client := f.wechatClient(t, nil)
	closeOrder := func(orderID string) error {
		_, err := (&native.NativeApiService{Client: client}).CloseOrder(t.Context(),
			native.CloseOrderRequest{OutTradeNo: &orderID, Mchid: &f.keys.WeChatMchID})
		return err
	}
	require.Equal(t, "404 ORDER_NOT_EXIST", wechatCode(t, closeOrder("order-1")))
	_, err := f.wechatNative(client, "order-1", 100)
	require.NoError(t, err)
	require.NoError(t, closeOrder("order-1"))
	require.NoError(t, closeOrder("order-1"), "closing can be repeated")
	found, err := f.wechatQuery(client, "order-1")
	require.NoError(t, err)
	require.Equal(t, "CLOSED", *found.TradeState)
	_, err = f.wechatNative(client, "order-1", 100)
	require.Equal(t, "400 ORDER_CLOSED", wechatCode(t, err))

	_, err = f.wechatNative(client, "order-2", 100)
	require.NoError(t, err)
	f.control("/buyer", `{"provider":"wechat","out_trade_no":"order-2","action":"pay"}`)
	require.Equal(t, "400 ORDERPAID", wechatCode(t, closeOrder("order-2")))
}

func TestWeChatRefunds(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.wechatClient(t, nil)
	_, err := f.wechatRefund(client, "order-1", "r1", 30, 100)
	require.Equal(t, "404 RESOURCE_NOT_EXISTS", wechatCode(t, err))
	_, err = f.wechatNative(client, "order-1", 100)
	require.NoError(t, err)
	_, err = f.wechatNative(client, "order-2", 100)
	require.NoError(t, err)

	made, err := f.wechatRefund(client, "order-1", "r1", 30, 100)
	require.NoError(t, err)
	require.Equal(t, refunddomestic.STATUS_PROCESSING, *made.Status)
	again, err := f.wechatRefund(client, "order-1", "r1", 30, 100)
	require.NoError(t, err)
	require.Equal(t, *made.RefundId, *again.RefundId)
	for name, refused := range map[string]func() error{
		"other amount": func() error { _, err := f.wechatRefund(client, "order-1", "r1", 31, 100); return err },
		"other total":  func() error { _, err := f.wechatRefund(client, "order-1", "r2", 30, 99); return err },
		"other order":  func() error { _, err := f.wechatRefund(client, "order-2", "r1", 30, 100); return err },
		"too much":     func() error { _, err := f.wechatRefund(client, "order-1", "r2", 71, 100); return err },
	} {
		require.Equal(t, "400 INVALID_REQUEST", wechatCode(t, refused()), name)
	}
	found, err := f.wechatQuery(client, "order-1")
	require.NoError(t, err)
	require.Equal(t, "REFUND", *found.TradeState, "a refund of a part is one too")

	_, err = f.wechatRefund(client, "order-1", "r2", 70, 100)
	require.NoError(t, err)
	_, err = f.wechatRefund(client, "order-1", "r3", 1, 100)
	require.Equal(t, "400 INVALID_REQUEST", wechatCode(t, err))
	require.Equal(t, []string{"charge 100 CNY", "refund 30 CNY", "refund 70 CNY"}, f.moved("wechat", "order-1"))
	require.Equal(t, []string{"charge 100 CNY"}, f.moved("wechat", "order-2"))

	queryRefund := func(number string) (*refunddomestic.Refund, error) {
		made, _, err := (&refunddomestic.RefundsApiService{Client: client}).QueryByOutRefundNo(t.Context(),
			refunddomestic.QueryByOutRefundNoRequest{OutRefundNo: &number})
		return made, err
	}
	told, err := queryRefund("r2")
	require.NoError(t, err)
	require.Equal(t, refunddomestic.STATUS_SUCCESS, *told.Status)
	require.Equal(t, int64(70), *told.Amount.Refund)
	_, err = queryRefund("never-made")
	require.Equal(t, "404 RESOURCE_NOT_EXISTS", wechatCode(t, err))
}

func TestWeChatFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		op, fault string
		code      string
		cut       bool
		moved     []string
	}{
		{op: "charge", fault: "error_before", code: "500 SYSTEM_ERROR"},
		{op: "charge", fault: "error_after", code: "500 SYSTEM_ERROR", moved: []string{"charge 100 CNY"}},
		{op: "charge", fault: "drop_after", cut: true, moved: []string{"charge 100 CNY"}},
		{op: "charge", fault: "delay", moved: []string{"charge 100 CNY"}},
		{op: "charge", fault: "decline", code: "403 NO_AUTH"},
		{op: "query", fault: "error_before", code: "500 SYSTEM_ERROR"},
		{op: "query", fault: "error_after", code: "500 SYSTEM_ERROR"},
		{op: "query", fault: "drop_after", cut: true},
		{op: "refund", fault: "error_before", code: "500 SYSTEM_ERROR"},
		{op: "refund", fault: "error_after", code: "500 SYSTEM_ERROR", moved: []string{"refund 40 CNY"}},
		{op: "refund", fault: "drop_after", cut: true, moved: []string{"refund 40 CNY"}},
		{op: "refund", fault: "decline", code: "403 NOT_ENOUGH"},
	} {
		t.Run(test.op+"/"+test.fault, func(t *testing.T) {
			t.Parallel()
			f := setup(t, pspsim.Options{})
			client := f.wechatClient(t, nil)
			call := map[string]func() error{
				"charge": func() error { _, err := f.wechatNative(client, "order-1", 100); return err },
				"query":  func() error { _, err := f.wechatQuery(client, "order-1"); return err },
				"refund": func() error { _, err := f.wechatRefund(client, "order-1", "r1", 40, 100); return err },
			}
			if test.op != "charge" {
				require.NoError(t, call["charge"]())
			}
			before := len(f.moved("wechat", "order-1"))
			require.NoError(t, f.sim.Arm(pspsim.Fault{Provider: "wechat", Op: test.op, Fault: test.fault, DelayMS: 1}))
			err := call[test.op]()
			switch {
			case test.cut:
				var problem *core.APIError
				require.Error(t, err)
				require.False(t, errors.As(err, &problem))
			case test.code != "":
				require.Equal(t, test.code, wechatCode(t, err))
			default:
				require.NoError(t, err)
			}
			require.Equal(t, test.moved, append([]string(nil), f.moved("wechat", "order-1")[before:]...))
		})
	}
}

func TestWeChatRefusesWhatIsNotSignedRight(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	other := keysOf(t, otherKeys)
	for name, change := range map[string]func(*pspsim.Keys){
		"other key":      func(k *pspsim.Keys) { k.WeChatMerchantPrivateKey = other.WeChatMerchantPrivateKey },
		"other serial":   func(k *pspsim.Keys) { k.WeChatMerchantSerial = other.WeChatMerchantSerial },
		"other merchant": func(k *pspsim.Keys) { k.WeChatMchID = "1900000002" },
	} {
		_, err := f.wechatNative(f.wechatClient(t, change), "order-1", 100)
		require.Equal(t, "401 SIGN_ERROR", wechatCode(t, err), name)
		_, err = f.wechatRefund(f.wechatClient(t, change), "order-1", "r1", 1, 1)
		require.Equal(t, "401 SIGN_ERROR", wechatCode(t, err), name)
	}
	require.Empty(t, f.sim.Ledger())

	// The client in turn refuses answers that another key signed.
	_, err := f.wechatNative(f.wechatClient(t, func(k *pspsim.Keys) { k.WeChatPublicKey = other.WeChatPublicKey }), "order-1", 100)
	require.ErrorContains(t, err, "verify")
}

// The signature covers method, path, query, time and body.
func TestWeChatSignatureCoversTheRequest(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	var sent *http.Request
	var body []byte
	to, err := url.Parse(f.url + "/wechat")
	require.NoError(t, err)
	private, err := utils.LoadPrivateKey(f.keys.WeChatMerchantPrivateKey)
	require.NoError(t, err)
	client, err := core.NewClient(t.Context(),
		option.WithMerchantCredential(f.keys.WeChatMchID, f.keys.WeChatMerchantSerial, private), option.WithoutValidator(),
		option.WithHTTPClient(&http.Client{Transport: redirect{to, roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r
			body, err = io.ReadAll(r.Body)
			return nil, errors.Join(errors.New("kept back"), err)
		})}}))
	require.NoError(t, err)
	_, err = f.wechatNative(client, "order-1", 100)
	require.ErrorContains(t, err, "kept back")

	authorization := sent.Header.Get("Authorization")
	for name, change := range map[string]func(http.Header, *string, *string){
		"path":      func(_ http.Header, path, _ *string) { *path = strings.Replace(*path, "native", "app", 1) },
		"query":     func(_ http.Header, path, _ *string) { *path += "?x=1" },
		"body":      func(_ http.Header, _, body *string) { *body = strings.Replace(*body, "100", "101", 1) },
		"no header": func(h http.Header, _, _ *string) { h.Del("Authorization") },
		"scheme":    func(h http.Header, _, _ *string) { h.Set("Authorization", "Bearer x") },
		"nonce": func(h http.Header, _, _ *string) {
			h.Set("Authorization", strings.Replace(authorization, `nonce_str="`, `nonce_str="x`, 1))
		},
		"field": func(h http.Header, _, _ *string) {
			h.Set("Authorization", strings.Replace(authorization, "nonce_str", "nonsense", 1))
		},
		"old time": func(h http.Header, _, _ *string) {
			h.Set("Authorization", strings.Replace(authorization, `timestamp="`, `timestamp="1`, 1))
		},
		"no time": func(h http.Header, _, _ *string) {
			h.Set("Authorization", strings.Replace(authorization, `timestamp="`, `timestamp="x`, 1))
		},
	} {
		header, path, changed := sent.Header.Clone(), sent.URL.Path, string(body)
		change(header, &path, &changed)
		status, answered, answer := f.send(http.MethodPost, path, header, changed)
		require.Equal(t, http.StatusUnauthorized, status, name)
		require.Contains(t, answer, `"SIGN_ERROR"`, name)
		require.Empty(t, answered.Get("Wechatpay-Signature"), "who is not known gets no signature")
	}
	require.Empty(t, f.sim.Ledger())
	status, _, answer := f.send(http.MethodPost, sent.URL.Path, sent.Header, string(body))
	require.Equal(t, http.StatusOK, status, answer)

	_, _, answer = f.send(http.MethodPost, "/wechat/v3/refund/domestic/refunds", http.Header{"User-Agent": {""}}, "")
	require.Contains(t, answer, "INVALID_REQUEST")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func TestWeChatNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.wechatClient(t, nil)
	post := func(path string, body map[string]any) error {
		_, err := client.Post(t.Context(), "https://api.mch.weixin.qq.com"+path, body)
		return err
	}
	order := func(change map[string]any) map[string]any {
		body := map[string]any{
			"appid": f.keys.WeChatAppID, "mchid": f.keys.WeChatMchID, "description": "Tea", "out_trade_no": "order-1",
			"notify_url": "http://127.0.0.1:1/unused", "amount": map[string]any{"total": 1, "currency": "CNY"},
		}
		for name, value := range change {
			body[name] = value
		}
		return body
	}
	for _, test := range []struct {
		product string
		change  map[string]any
		code    string
		field   string
	}{
		{"native", map[string]any{"mchid": "1900000002"}, "400 MCH_NOT_EXISTS", ""},
		{"native", map[string]any{"appid": "wx1"}, "400 APPID_MCHID_NOT_MATCH", ""},
		{"native", map[string]any{"description": ""}, "400 PARAM_ERROR", "/description"},
		{"native", map[string]any{"out_trade_no": "five5"}, "400 PARAM_ERROR", "/out_trade_no"},
		{"native", map[string]any{"out_trade_no": strings.Repeat("x", 33)}, "400 PARAM_ERROR", "/out_trade_no"},
		{"native", map[string]any{"notify_url": "http://127.0.0.1/?x=1"}, "400 PARAM_ERROR", "/notify_url"},
		{"native", map[string]any{"amount": map[string]any{"total": 0}}, "400 PARAM_ERROR", "/amount/total"},
		{"native", map[string]any{"amount": map[string]any{"total": 1, "currency": "USD"}}, "400 PARAM_ERROR", "/amount/currency"},
		{"native", map[string]any{"amount": "1.00"}, "400 PARAM_ERROR", ""},
		{"jsapi", nil, "400 PARAM_ERROR", "/payer/openid"},
		{"h5", nil, "400 PARAM_ERROR", "/scene_info/payer_client_ip"},
		{"h5", map[string]any{"scene_info": map[string]any{"payer_client_ip": "127.0.0.1"}}, "400 PARAM_ERROR", "/scene_info/h5_info/type"},
	} {
		err := post("/v3/pay/transactions/"+test.product, order(test.change))
		require.Equal(t, test.code, wechatCode(t, err), "%+v", test)
		if test.field != "" {
			require.ErrorContains(t, err, `"field": "`+test.field+`"`)
		}
	}
	for _, test := range []struct {
		change map[string]any
		field  string
	}{
		{map[string]any{"out_trade_no": ""}, "/out_trade_no"},
		{map[string]any{"out_refund_no": "with space"}, "/out_refund_no"},
		{map[string]any{"reason": strings.Repeat("x", 81)}, "/reason"},
		{map[string]any{"amount": map[string]any{"refund": 0, "total": 1, "currency": "CNY"}}, "/amount/refund"},
		{map[string]any{"amount": map[string]any{"refund": 1, "currency": "CNY"}}, "/amount/total"},
		{map[string]any{"amount": map[string]any{"refund": 1, "total": 1}}, "/amount/currency"},
	} {
		body := map[string]any{
			"out_trade_no": "order-1", "out_refund_no": "r1", "amount": map[string]any{"refund": 1, "total": 1, "currency": "CNY"},
		}
		for name, value := range test.change {
			body[name] = value
		}
		err := post("/v3/refund/domestic/refunds", body)
		require.Equal(t, "400 PARAM_ERROR", wechatCode(t, err), "%+v", test)
		require.ErrorContains(t, err, `"field": "`+test.field+`"`)
	}
	_, err := client.Get(t.Context(), "https://api.mch.weixin.qq.com/v3/pay/transactions/out-trade-no/order-1")
	require.Equal(t, "400 PARAM_ERROR", wechatCode(t, err), "the mchid is missing")
	_, err = client.Get(t.Context(), "https://api.mch.weixin.qq.com/v3/pay/transactions/out-trade-no/order-1?mchid=1900000002")
	require.Equal(t, "400 MCH_NOT_EXISTS", wechatCode(t, err))
	_, err = f.wechatQuery(client, "order-1")
	require.Equal(t, "404 ORDER_NOT_EXIST", wechatCode(t, err))
	require.Empty(t, f.sim.Ledger())
}

// wechatDecoded verifies and decrypts a notification with the SDK.
func (f *fixture) wechatDecoded(t *testing.T, got delivery, content any) (*notify.Request, error) {
	t.Helper()
	handler, err := notify.NewRSANotifyHandler(f.keys.WeChatAPIv3Key,
		verifiers.NewSHA256WithRSAPubkeyVerifier(f.keys.WeChatPublicKeyID, *wechatPublicKey(t, f.keys)))
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, got.path, strings.NewReader(got.body))
	require.NoError(t, err)
	request.Header = got.header
	return handler.ParseNotifyRequest(context.WithoutCancel(t.Context()), request, content)
}

func TestWeChatNotifiesUntilAcknowledged(t *testing.T) {
	t.Parallel()
	statuses := make(chan int, 3)
	statuses <- http.StatusInternalServerError
	statuses <- http.StatusNoContent
	statuses <- http.StatusOK
	box := newInbox(t, func(w http.ResponseWriter, _ delivery) { w.WriteHeader(<-statuses) })
	f := setup(t, pspsim.Options{NotifyURL: box.url})
	client := f.wechatClient(t, nil)
	_, _, err := (&native.NativeApiService{Client: client}).Prepay(t.Context(), native.PrepayRequest{
		Appid: &f.keys.WeChatAppID, Mchid: &f.keys.WeChatMchID, Description: core.String("Tea"), OutTradeNo: core.String("order-1"),
		NotifyUrl: core.String(box.url + "/own"), Amount: &native.Amount{Total: core.Int64(100)},
	})
	require.NoError(t, err)

	var first, second payments.Transaction
	refused := box.next(t)
	require.Equal(t, "/own", refused.path)
	one, err := f.wechatDecoded(t, refused, &first)
	require.NoError(t, err)
	require.Equal(t, "TRANSACTION.SUCCESS", one.EventType)
	require.Equal(t, "encrypt-resource", one.ResourceType)
	require.Equal(t, "order-1", *first.OutTradeNo)
	require.Equal(t, "SUCCESS", *first.TradeState)
	require.Equal(t, int64(100), *first.Amount.Total)
	require.NotEmpty(t, *first.TransactionId)
	two, err := f.wechatDecoded(t, box.next(t), &second)
	require.NoError(t, err)
	require.Equal(t, one.ID, two.ID)
	require.Equal(t, first, second)

	_, err = f.wechatRefund(client, "order-1", "r1", 40, 100)
	require.NoError(t, err)
	var refund map[string]any
	made := box.next(t)
	require.Equal(t, "/webhooks/wechat", made.path, "a refund without a notify_url goes where the merchant's settings say")
	told, err := f.wechatDecoded(t, made, &refund)
	require.NoError(t, err)
	require.Equal(t, "REFUND.SUCCESS", told.EventType)
	require.Equal(t, "r1", refund["out_refund_no"])
	require.Equal(t, "SUCCESS", refund["refund_status"])
	f.sim.Close()
	require.Empty(t, box.deliveries)
}

func TestWeChatNotifyOnRequest(t *testing.T) {
	t.Parallel()
	box := newInbox(t, acknowledge(`{"code":"SUCCESS"}`))
	f := setup(t, pspsim.Options{NotifyURL: box.url, ManualBuyer: true})
	_, _, err := (&native.NativeApiService{Client: f.wechatClient(t, nil)}).Prepay(t.Context(), native.PrepayRequest{
		Appid: &f.keys.WeChatAppID, Mchid: &f.keys.WeChatMchID, Description: core.String("Tea"), OutTradeNo: core.String("order-1"),
		NotifyUrl: core.String(box.url + "/webhooks/wechat"), Amount: &native.Amount{Total: core.Int64(101)},
	})
	require.NoError(t, err)
	for _, test := range []struct {
		event, eventType string
		refund           float64
	}{
		{"paid", "TRANSACTION.SUCCESS", 0}, {"refund_partial", "REFUND.SUCCESS", 50}, {"refund_full", "REFUND.SUCCESS", 101},
	} {
		acks := f.notify(fmt.Sprintf(`{"provider":"wechat","out_trade_no":"order-1","event":%q,"times":2,"parallel":true}`, test.event))
		require.Len(t, acks, 2)
		require.Equal(t, `{"code":"SUCCESS"}`, acks[1].Body)
		var one, two map[string]any
		first, err := f.wechatDecoded(t, box.next(t), &one)
		require.NoError(t, err)
		second, err := f.wechatDecoded(t, box.next(t), &two)
		require.NoError(t, err)
		require.Equal(t, test.eventType, first.EventType)
		require.Equal(t, first.ID, second.ID)
		require.Equal(t, one, two)
		if test.refund > 0 {
			amount, ok := one["amount"].(map[string]any)
			require.True(t, ok)
			require.InDelta(t, test.refund, amount["refund"], 0)
		}
	}
	for _, event := range []string{"waiting", "finished", "failed", "closed"} {
		status, answer := f.control("/notify", fmt.Sprintf(`{"provider":"wechat","out_trade_no":"order-1","event":%q}`, event))
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, answer, "wechat sends no notification")
	}
	require.Empty(t, f.sim.Ledger())

	// A notification that was changed on its way is refused.
	f.notify(`{"provider":"wechat","out_trade_no":"order-1","event":"paid"}`)
	changed := box.next(t)
	var body map[string]any
	require.NoError(t, json.Unmarshal([]byte(changed.body), &body))
	body["event_type"] = "REFUND.SUCCESS"
	text, err := json.Marshal(body)
	require.NoError(t, err)
	changed.body = string(text)
	_, err = f.wechatDecoded(t, changed, &map[string]any{})
	require.Error(t, err)
	stale := box.deliveries
	f.notify(`{"provider":"wechat","out_trade_no":"order-1","event":"paid"}`)
	old := <-stale
	old.header.Set("Wechatpay-Timestamp", fmt.Sprint(time.Now().Add(-6*time.Minute).Unix()))
	_, err = f.wechatDecoded(t, old, &map[string]any{})
	require.Error(t, err)
}
