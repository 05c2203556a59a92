package pspsim

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const wechatName = "wechat"

// wechatPath is what stands before WeChat Pay's own paths. The signature
// covers the path without it.
const wechatPath = "/wechat"

const (
	wechatScheme    = "WECHATPAY2-SHA256-RSA2048"
	wechatTolerance = 5 * time.Minute
	maxWeChatBytes  = 1 << 20
)

// wechatZone is the time zone of WeChat Pay's times.
var wechatZone = time.FixedZone("CST", 8*60*60)

// wechatAPI is WeChat Pay's API v3 for one merchant. The page numbers in the
// comments are those below pay.weixin.qq.com/doc/v3/merchant/.
type wechatAPI struct{ *Simulator }

func (a *wechatAPI) routes(mux *http.ServeMux) {
	for path, product := range wechatProducts {
		mux.HandleFunc("POST "+wechatPath+"/v3/pay/transactions/"+path, a.authentic(opCharge, func(r wechatRequest) call {
			return call{refused: a.error(http.StatusForbidden, "NO_AUTH", "此商家的收款功能已被限制"), do: func() answer {
				return a.prepay(r, product)
			}}
		}))
	}
	handle := func(pattern, op string, do func(wechatRequest) answer) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+wechatPath+path, a.authentic(op, func(r wechatRequest) call {
			return call{refused: a.error(http.StatusForbidden, "NOT_ENOUGH", "基本账户余额不足，请充值后重新发起"), do: func() answer {
				return do(r)
			}}
		}))
	}
	handle("GET /v3/pay/transactions/out-trade-no/{number}", opQuery, a.query)
	handle("GET /v3/pay/transactions/id/{transaction}", opQuery, a.query)
	handle("POST /v3/pay/transactions/out-trade-no/{number}/close", "close", a.close)
	handle("POST /v3/refund/domestic/refunds", opRefund, a.refund)
	handle("GET /v3/refund/domestic/refunds/{number}", opQuery, a.queryRefund)
}

// wechatProduct is a way of paying: its trade_type, what it needs of the
// request, and what it hands the client.
type wechatProduct struct {
	tradeType string
	missing   func(wechatOrder) string
	answer    func(prepayID string) map[string]string
}

func wechatPrepayID(prepayID string) map[string]string {
	return map[string]string{"prepay_id": prepayID}
}

// Pages 4012791856 (JSAPI), 4012791877 (Native), 4013070347 (app), 4012791834
// (H5).
var wechatProducts = map[string]wechatProduct{
	"jsapi": {"JSAPI", func(o wechatOrder) string {
		if o.Payer.OpenID == "" {
			return "/payer/openid"
		}
		return ""
	}, wechatPrepayID},
	"app": {"APP", func(wechatOrder) string { return "" }, wechatPrepayID},
	"native": {"NATIVE", func(wechatOrder) string { return "" }, func(prepayID string) map[string]string {
		return map[string]string{"code_url": "weixin://wxpay/bizpayurl?pr=" + prepayID}
	}},
	"h5": {"MWEB", func(o wechatOrder) string {
		switch {
		case o.SceneInfo.PayerClientIP == "":
			return "/scene_info/payer_client_ip"
		case o.SceneInfo.H5Info.Type == "":
			return "/scene_info/h5_info/type"
		}
		return ""
	}, func(prepayID string) map[string]string {
		return map[string]string{"h5_url": "https://wx.tenpay.com/cgi-bin/mmpayweb-bin/checkmweb?prepay_id=" + prepayID}
	}},
}

// wechatRequest is a request whose signature was verified.
type wechatRequest struct {
	*http.Request
	body []byte
}

// authentic verifies a request, and answers it under the fault that is armed.
func (a *wechatAPI) authentic(op string, calls func(wechatRequest) call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.count(wechatName, op)
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxWeChatBytes))
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		if refused, ok := a.verify(r, body); !ok {
			refused.write(w)
			return
		}
		c := calls(wechatRequest{r, body})
		c.provider, c.op = wechatName, op
		c.systemError = a.error(http.StatusInternalServerError, "SYSTEM_ERROR", "系统异常，请稍后重试")
		answer, cut := a.perform(c)
		if cut {
			cutConnection(w)
			return
		}
		answer.write(w)
	}
}

// verify checks the Authorization header (page 4012365342). A refusal carries
// no signature.
func (a *wechatAPI) verify(r *http.Request, body []byte) (answer, bool) {
	refuse := func(status int, code, message string) (answer, bool) {
		return wechatUnsigned(status, wechatError{Code: code, Message: message}), false
	}
	isRefund := strings.HasPrefix(r.URL.Path, wechatPath+"/v3/refund/")
	if isRefund && (r.Header.Get("Accept") == "" || r.Header.Get("User-Agent") == "") {
		return refuse(http.StatusBadRequest, "INVALID_REQUEST", "Http头缺少Accept或User-Agent")
	}
	fields, ok := wechatAuthorization(r.Header.Get("Authorization"))
	timestamp, err := strconv.ParseInt(fields["timestamp"], 10, 64)
	switch {
	case (!ok || err != nil) && isRefund:
		return refuse(http.StatusUnauthorized, "SIGN_ERROR", "Http头Authorization值格式错误，请参考《微信支付商户REST API签名规则》")
	case !ok || err != nil:
		return refuse(http.StatusUnauthorized, "SIGN_ERROR", "签名信息错误，验签失败")
	case time.Since(time.Unix(timestamp, 0)).Abs() > wechatTolerance:
		return refuse(http.StatusUnauthorized, "SIGN_ERROR", "Http头Authorization中的timestamp与发起请求的时间不得超过5分钟")
	case fields["mchid"] != a.options.Keys.WeChatMchID || fields["serial_no"] != a.options.Keys.WeChatMerchantSerial:
		return refuse(http.StatusUnauthorized, "SIGN_ERROR", "商户证书序列号有误。请使用签名私钥匹配的证书序列号")
	}
	signed := strings.Join([]string{
		r.Method, strings.TrimPrefix(r.RequestURI, wechatPath), fields["timestamp"], fields["nonce_str"], string(body), "",
	}, "\n")
	if !verifySHA256(&a.options.Keys.wechatMerchant.PublicKey, signed, fields["signature"]) {
		return refuse(http.StatusUnauthorized, "SIGN_ERROR", "签名错误")
	}
	return answer{}, true
}

var wechatAuthorizationField = regexp.MustCompile(`^(mchid|nonce_str|signature|timestamp|serial_no)="([^"]+)"$`)

// wechatAuthorization reads the five fields of the header, in any order.
func wechatAuthorization(header string) (map[string]string, bool) {
	scheme, rest, _ := strings.Cut(header, " ")
	if scheme != wechatScheme {
		return nil, false
	}
	fields := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		match := wechatAuthorizationField.FindStringSubmatch(part)
		if match == nil {
			return nil, false
		}
		fields[match[1]] = match[2]
	}
	return fields, len(fields) == 5
}

// wechatOrder is the body of the four orders.
type wechatOrder struct {
	AppID       string `json:"appid"`
	MchID       string `json:"mchid"`
	Description string `json:"description"`
	OutTradeNo  string `json:"out_trade_no"`
	NotifyURL   string `json:"notify_url"`
	Attach      string `json:"attach"`
	Amount      struct {
		Total    int64  `json:"total"`
		Currency string `json:"currency"`
	} `json:"amount"`
	Payer struct {
		OpenID string `json:"openid"`
	} `json:"payer"`
	SceneInfo struct {
		PayerClientIP string `json:"payer_client_ip"`
		H5Info        struct {
			Type string `json:"type"`
		} `json:"h5_info"`
	} `json:"scene_info"`
}

var (
	wechatOutTradeNo  = regexp.MustCompile(`^[A-Za-z0-9_\-|*]{6,32}$`)
	wechatOutRefundNo = regexp.MustCompile(`^[A-Za-z0-9_\-|*@]{1,64}$`)
)

// invalid names the field that is wrong, as a JSON pointer.
func (o wechatOrder) invalid(product wechatProduct) string {
	switch {
	case o.Description == "" || utf8.RuneCountInString(o.Description) > 127:
		return "/description"
	case !wechatOutTradeNo.MatchString(o.OutTradeNo):
		return "/out_trade_no"
	case !strings.HasPrefix(o.NotifyURL, "http") || strings.Contains(o.NotifyURL, "?"):
		return "/notify_url"
	case o.Amount.Total < 1:
		return "/amount/total"
	case o.Amount.Currency != "" && o.Amount.Currency != "CNY":
		return "/amount/currency"
	}
	return product.missing(o)
}

// prepay opens the order, or finds the one that the same request opened
// before: until it is paid, a repetition with every parameter the same gets
// the order again, and any other is refused (page 4012791877).
func (a *wechatAPI) prepay(r wechatRequest, product wechatProduct) answer {
	var order wechatOrder
	terms, err := canonicalJSON(r.body)
	if err == nil {
		err = json.Unmarshal(r.body, &order)
	}
	if err != nil {
		return a.parameterError("", err.Error())
	}
	if order.MchID != a.options.Keys.WeChatMchID {
		return a.error(http.StatusBadRequest, "MCH_NOT_EXISTS", "商户号不存在")()
	}
	if order.AppID != a.options.Keys.WeChatAppID {
		return a.error(http.StatusBadRequest, "APPID_MCHID_NOT_MATCH", "appid和mch_id不匹配，请检查后再试")()
	}
	if field := order.invalid(product); field != "" {
		return a.parameterError(field, "the value is missing or not allowed")
	}
	key := tradeKey{wechatName, order.OutTradeNo}
	terms = product.tradeType + "\n" + terms
	t, exists := a.byNumber[key]
	switch {
	case !exists:
		t = &trade{
			tradeKey: key, outTradeNo: order.OutTradeNo, tradeNo: a.nextNumber(), amount: order.Amount.Total, currency: "CNY",
			terms: terms, subject: order.Description, notifyURL: order.NotifyURL, attach: order.Attach,
			method: product.tradeType, payer: order.Payer.OpenID,
		}
		a.open(t)
	case t.status == closed:
		return a.error(http.StatusBadRequest, "ORDER_CLOSED", "该订单已关闭，请重新下单")()
	case t.terms != terms:
		return a.error(http.StatusForbidden, "OUT_TRADE_NO_USED", "商户订单号重复")()
	case t.status == paid:
		return a.error(http.StatusBadRequest, "ORDERPAID", "该订单已支付")()
	}
	a.payUnlessManual(t)
	return a.json(http.StatusOK, product.answer("wx"+fingerprint(t.tradeNo)[:34]))
}

// canonicalJSON makes texts equal that mean the same.
func canonicalJSON(text []byte) (string, error) {
	var value map[string]any
	if err := json.Unmarshal(text, &value); err != nil {
		return "", err
	}
	canonical, err := json.Marshal(value)
	return string(canonical), err
}

// query finds an order by either number (pages 4012791858 and 4012791859). An
// order has a transaction_id only once it is paid.
func (a *wechatAPI) query(r wechatRequest) answer {
	switch r.URL.Query().Get("mchid") {
	case "":
		return a.parameterErrorIn("query", "mchid", "the value is missing")
	case a.options.Keys.WeChatMchID:
	default:
		return a.error(http.StatusBadRequest, "MCH_NOT_EXISTS", "商户号不存在")()
	}
	t := a.byNumber[tradeKey{wechatName, r.PathValue("number")}]
	if transaction := r.PathValue("transaction"); transaction != "" {
		t = a.findTransaction(transaction)
	}
	if t == nil {
		return a.error(http.StatusNotFound, "ORDER_NOT_EXIST", "订单不存在")()
	}
	return a.json(http.StatusOK, a.transaction(t))
}

func (a *wechatAPI) findTransaction(transactionID string) *trade {
	i := slices.IndexFunc(a.trades, func(t *trade) bool {
		return t.provider == wechatName && t.tradeNo == transactionID && t.status == paid
	})
	if i < 0 {
		return nil
	}
	return a.trades[i]
}

// close ends an unpaid order, again and again (page 4012791860).
func (a *wechatAPI) close(r wechatRequest) answer {
	var request struct {
		MchID string `json:"mchid"`
	}
	t := a.byNumber[tradeKey{wechatName, r.PathValue("number")}]
	switch err := json.Unmarshal(r.body, &request); {
	case err != nil || request.MchID == "":
		return a.parameterError("/mchid", "the value is missing")
	case request.MchID != a.options.Keys.WeChatMchID:
		return a.error(http.StatusBadRequest, "MCH_NOT_EXISTS", "商户号不存在")()
	case t == nil:
		return a.error(http.StatusNotFound, "ORDER_NOT_EXIST", "订单不存在")()
	case t.status == paid:
		return a.error(http.StatusBadRequest, "ORDERPAID", "该订单已支付")()
	case t.status == waiting:
		a.turnAway(t)
	}
	return a.signed(http.StatusNoContent, nil)
}

// wechatState and its description. A refund of any part is REFUND.
func wechatState(t *trade) (state, description string) {
	switch {
	case t.status == waiting:
		return "NOTPAY", "订单未支付"
	case t.status == closed:
		return "CLOSED", "订单已关闭"
	case t.refunded() > 0:
		return "REFUND", "订单发生过退款"
	default:
		return "SUCCESS", "支付成功"
	}
}

// transaction is the order as queries and the paid notification tell it.
func (a *wechatAPI) transaction(t *trade) map[string]any {
	state, description := wechatState(t)
	told := map[string]any{
		"appid": a.options.Keys.WeChatAppID, "mchid": a.options.Keys.WeChatMchID, "out_trade_no": t.outTradeNo,
		"trade_state": state, "trade_state_desc": description,
		"amount": map[string]any{"total": t.amount, "currency": "CNY"},
	}
	if t.status == paid {
		a.tellPaid(told, t)
	}
	return told
}

// wechatOpenID is the buyer where the order names none.
const wechatOpenID = "oSimulatedBuyer000000000001"

func (a *wechatAPI) tellPaid(told map[string]any, t *trade) {
	payer := t.payer
	if payer == "" {
		payer = wechatOpenID
	}
	told["transaction_id"], told["trade_type"], told["bank_type"] = t.tradeNo, t.method, "OTHERS"
	told["success_time"] = wechatTime(orCreated(t, t.paidAt))
	told["payer"] = map[string]string{"openid": payer}
	told["amount"] = map[string]any{
		"total": t.amount, "payer_total": t.amount, "currency": "CNY", "payer_currency": "CNY",
	}
	if t.attach != "" {
		told["attach"] = t.attach
	}
}

// wechatRefundRequest is the body of a refund (page 4013071036).
type wechatRefundRequest struct {
	TransactionID string `json:"transaction_id"`
	OutTradeNo    string `json:"out_trade_no"`
	OutRefundNo   string `json:"out_refund_no"`
	Reason        string `json:"reason"`
	NotifyURL     string `json:"notify_url"`
	Amount        struct {
		Refund   int64  `json:"refund"`
		Total    int64  `json:"total"`
		Currency string `json:"currency"`
	} `json:"amount"`
}

func (r wechatRefundRequest) invalid() string {
	switch {
	case r.TransactionID == "" && r.OutTradeNo == "":
		return "/out_trade_no"
	case !wechatOutRefundNo.MatchString(r.OutRefundNo):
		return "/out_refund_no"
	case utf8.RuneCountInString(r.Reason) > 80:
		return "/reason"
	case r.Amount.Refund < 1:
		return "/amount/refund"
	case r.Amount.Total < 1:
		return "/amount/total"
	case r.Amount.Currency != "CNY":
		return "/amount/currency"
	}
	return ""
}

// refund accepts a refund; what comes of it is told by the notification and
// the query. An out_refund_no is refunded once, however often it is sent.
func (a *wechatAPI) refund(r wechatRequest) answer {
	var request wechatRefundRequest
	if err := json.Unmarshal(r.body, &request); err != nil {
		return a.parameterError("", err.Error())
	}
	if field := request.invalid(); field != "" {
		return a.parameterError(field, "the value is missing or not allowed")
	}
	t := a.byNumber[tradeKey{wechatName, request.OutTradeNo}]
	if request.TransactionID != "" {
		t = a.findTransaction(request.TransactionID)
	}
	if t == nil || t.status != paid {
		return a.error(http.StatusNotFound, "RESOURCE_NOT_EXISTS", "订单不存在")()
	}
	discord := a.error(http.StatusBadRequest, "INVALID_REQUEST", "订单金额或退款金额与之前请求不一致，请核实后再试")
	if other, before, found := a.findRefundNo(request.OutRefundNo); found {
		if other != t || before.amount != request.Amount.Refund || request.Amount.Total != t.amount {
			return discord()
		}
		return a.json(http.StatusOK, wechatRefund(t, before, "SUCCESS"))
	}
	switch {
	case request.Amount.Total != t.amount:
		return discord()
	case t.refunded() == t.amount:
		return a.error(http.StatusBadRequest, "INVALID_REQUEST", "订单已全额退款")()
	case t.refunded()+request.Amount.Refund > t.amount:
		return a.error(http.StatusBadRequest, "INVALID_REQUEST", "申请退款金额大于订单剩余可退金额")()
	}
	made := a.giveBack(t, refund{
		number: request.OutRefundNo, ownNumber: a.nextNumber(), amount: request.Amount.Refund, notifyURL: request.NotifyURL,
	})
	a.announce(t, refundEvent(t, made))
	return a.json(http.StatusOK, wechatRefund(t, made, "PROCESSING"))
}

// findRefundNo finds a refund by its number, which is unique in the merchant.
func (a *wechatAPI) findRefundNo(number string) (*trade, refund, bool) {
	for _, t := range a.trades {
		if t.provider != wechatName {
			continue
		}
		if made, ok := t.findRefund(number); ok {
			return t, made, true
		}
	}
	return nil, refund{}, false
}

// queryRefund tells what came of a refund (page 4013071041).
func (a *wechatAPI) queryRefund(r wechatRequest) answer {
	t, made, ok := a.findRefundNo(r.PathValue("number"))
	if !ok {
		return a.error(http.StatusNotFound, "RESOURCE_NOT_EXISTS", "退款单不存在")()
	}
	return a.json(http.StatusOK, wechatRefund(t, made, "SUCCESS"))
}

func wechatRefund(t *trade, r refund, status string) map[string]any {
	told := map[string]any{
		"refund_id": r.ownNumber, "out_refund_no": r.number, "transaction_id": t.tradeNo, "out_trade_no": t.outTradeNo,
		"channel": "ORIGINAL", "user_received_account": "支付用户零钱", "status": status, "create_time": wechatTime(r.at),
		"funds_account": "AVAILABLE",
		"amount": map[string]any{
			"total": t.amount, "refund": r.amount, "payer_total": t.amount, "payer_refund": r.amount,
			"settlement_total": t.amount, "settlement_refund": r.amount, "discount_refund": 0, "currency": "CNY",
		},
	}
	if status == "SUCCESS" {
		told["success_time"] = wechatTime(r.at)
	}
	return told
}

func wechatTime(t time.Time) string { return t.In(wechatZone).Format(time.RFC3339) }

// message is a notification: of a payment (page 4012791861), or of a refund
// (page 4013071196), to the address that the refund named. WeChat Pay sends
// none for an order that fails, closes or waits.
func (a *wechatAPI) message(t *trade, e event) (message, error) {
	notification := map[string]any{
		"id": wechatEventID(t, e), "resource_type": "encrypt-resource",
	}
	var content map[string]any
	var originalType string
	url := t.notifyURL
	switch e.kind {
	case eventPaid:
		notification["event_type"], notification["summary"] = "TRANSACTION.SUCCESS", "支付成功"
		notification["create_time"] = wechatTime(orCreated(t, t.paidAt))
		originalType, content = "transaction", a.transaction(t)
		content["trade_state"], content["trade_state_desc"] = "SUCCESS", "支付成功"
		a.tellPaid(content, t)
	case eventRefundPartial, eventRefundFull:
		notification["event_type"], notification["summary"] = "REFUND.SUCCESS", "退款成功"
		notification["create_time"] = wechatTime(e.refund.at)
		originalType, url = "refund", e.refund.notifyURL
		content = map[string]any{
			"mchid": a.options.Keys.WeChatMchID, "transaction_id": t.tradeNo, "out_trade_no": t.outTradeNo,
			"refund_id": e.refund.ownNumber, "out_refund_no": e.refund.number, "refund_status": "SUCCESS",
			"success_time": wechatTime(e.refund.at), "user_received_account": "支付用户零钱",
			"amount": map[string]any{
				"total": t.amount, "refund": e.refund.amount, "payer_total": t.amount, "payer_refund": e.refund.amount,
			},
		}
	default:
		return message{}, noEvent(wechatName, e.kind)
	}
	resource, err := a.encrypt(originalType, content)
	if err != nil {
		return message{}, err
	}
	notification["resource"] = resource
	body, err := json.Marshal(notification)
	if err != nil {
		return message{}, fmt.Errorf("write the notification: %w", err)
	}
	return message{
		url: a.target(wechatName, url), body: string(body),
		header: func() (http.Header, error) {
			header, err := a.signature(body)
			header.Set("Content-Type", "application/json")
			return header, err
		},
		accepted: func(ack acknowledgement) bool {
			return ack.Status == http.StatusOK || ack.Status == http.StatusNoContent
		},
	}, nil
}

// wechatEventID is the same in each delivery of an event; it has 36 characters.
func wechatEventID(t *trade, e event) string {
	digits := fingerprint(t.tradeNo, e.kind, e.refund.number)
	return strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]}, "-")
}

// encrypt seals the content with the APIv3 key: AEAD_AES_256_GCM, page
// 4012071382.
func (a *wechatAPI) encrypt(originalType string, content map[string]any) (map[string]string, error) {
	plain, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("write the notification: %w", err)
	}
	block, err := aes.NewCipher([]byte(a.options.Keys.WeChatAPIv3Key))
	if err != nil {
		return nil, fmt.Errorf("encrypt the notification: %w", err)
	}
	sealer, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("encrypt the notification: %w", err)
	}
	nonce := randomHex(6)
	sealed := sealer.Seal(nil, []byte(nonce), plain, []byte(originalType))
	return map[string]string{
		"original_type": originalType, "algorithm": "AEAD_AES_256_GCM", "nonce": nonce,
		"associated_data": originalType, "ciphertext": base64.StdEncoding.EncodeToString(sealed),
	}, nil
}

// randomHex is twice as many hexadecimal digits. crypto/rand never fails.
func randomHex(bytes int) string {
	random := make([]byte, bytes)
	_, _ = rand.Read(random)
	return hex.EncodeToString(random)
}

// wechatError is the body of a failure (page 4012081709).
type wechatError struct {
	Code    string        `json:"code"`
	Message string        `json:"message"`
	Detail  *wechatDetail `json:"detail,omitempty"`
}

type wechatDetail struct {
	Field    string `json:"field"`
	Issue    string `json:"issue"`
	Location string `json:"location"`
}

func (a *wechatAPI) error(status int, code, message string) func() answer {
	return func() answer { return a.json(status, wechatError{Code: code, Message: message}) }
}

func (a *wechatAPI) parameterError(field, issue string) answer {
	return a.parameterErrorIn("body", field, issue)
}

func (a *wechatAPI) parameterErrorIn(location, field, issue string) answer {
	return a.json(http.StatusBadRequest, wechatError{
		Code: "PARAM_ERROR", Message: "参数错误", Detail: &wechatDetail{Field: field, Issue: issue, Location: location},
	})
}

func (a *wechatAPI) json(status int, content any) answer {
	body, err := json.Marshal(content)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	return a.signed(status, body)
}

// signed is an answer with WeChat Pay's signature over it (page 4013053249).
func (a *wechatAPI) signed(status int, body []byte) answer {
	header, err := a.signature(body)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	if body != nil {
		header.Set("Content-Type", "application/json; charset=utf-8")
	}
	return answer{status: status, header: header, body: body}
}

func wechatUnsigned(status int, content wechatError) answer {
	body, err := json.Marshal(content)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	return answer{status: status, header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}, body: body}
}

// signature signs a body as it is sent now.
func (a *wechatAPI) signature(body []byte) (http.Header, error) {
	timestamp, nonce := strconv.FormatInt(time.Now().Unix(), 10), randomHex(16)
	signature, err := signSHA256(a.options.Keys.wechatPlatform, timestamp+"\n"+nonce+"\n"+string(body)+"\n")
	header := http.Header{}
	header.Set("Wechatpay-Timestamp", timestamp)
	header.Set("Wechatpay-Nonce", nonce)
	header.Set("Wechatpay-Signature", signature)
	header.Set("Wechatpay-Serial", a.options.Keys.WeChatPublicKeyID)
	header.Set("Wechatpay-Signature-Type", wechatScheme)
	return header, err
}
