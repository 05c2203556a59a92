package pspsim

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/payonce/payonce/internal/money"
)

// alipay is the provider's name.
const alipay = "alipay"

// alipayZone is the time zone of Alipay's times.
var alipayZone = time.FixedZone("CST", 8*60*60)

// alipayAnswer is the node of a response that is signed.
type alipayAnswer map[string]any

func alipayOK(fields alipayAnswer) alipayAnswer {
	fields["code"], fields["msg"] = "10000", "Success"
	return fields
}

func alipayFailure(code, msg, subCode, subMsg string) alipayAnswer {
	return alipayAnswer{"code": code, "msg": msg, "sub_code": subCode, "sub_msg": subMsg}
}

func alipayBusinessFailure(subCode, subMsg string) alipayAnswer {
	return alipayFailure("40004", "Business Failed", subCode, subMsg)
}

// alipayContent is the biz_content of all methods.
type alipayContent struct {
	OutTradeNo   string `json:"out_trade_no"`
	TradeNo      string `json:"trade_no"`
	Subject      string `json:"subject"`
	TotalAmount  string `json:"total_amount"`
	AuthCode     string `json:"auth_code"`
	BuyerID      string `json:"buyer_id"`
	BuyerOpenID  string `json:"buyer_open_id"`
	RefundAmount string `json:"refund_amount"`
	OutRequestNo string `json:"out_request_no"`
}

// alipayGateway is POST gateway.do (opendocs.alipay.com/common/02kf5q).
func (s *Simulator) alipayGateway(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "bad form", http.StatusBadRequest)
		return
	}
	method := r.Form.Get("method")
	op := map[string]string{
		"alipay.trade.create": opCharge, "alipay.trade.pay": opCharge, "alipay.trade.precreate": opCharge,
		"alipay.trade.query": opQuery, "alipay.trade.close": "close", "alipay.trade.cancel": "cancel",
		"alipay.trade.refund": opRefund, "alipay.trade.fastpay.refund.query": opQuery,
	}[method]
	content, refused := s.alipayRequest(r.Form)
	if refused == nil && op == "" {
		refused = alipayFailure("40002", "Invalid Arguments", "isv.invalid-method", "不存在的方法名")
	}
	if refused != nil {
		s.alipayWrite(w, method, refused)
		return
	}
	fault := s.called(alipay, op)
	switch fault.Fault {
	case delay:
		s.wait(time.Duration(fault.DelayMS) * time.Millisecond)
	case errorBefore:
		s.alipayWrite(w, method, alipaySystemError())
		return
	case decline:
		s.alipayWrite(w, method, alipayDecline(op))
		return
	}
	answer, moved := s.alipayCall(method, content, r.Form.Get("notify_url"))
	if moved != nil {
		s.notifyLater(moved, "paid")
	}
	switch fault.Fault {
	case errorAfter:
		answer = alipaySystemError()
	case dropAfter:
		cutConnection(w)
		return
	}
	s.alipayWrite(w, method, answer)
}

func alipaySystemError() alipayAnswer {
	return alipayFailure("20000", "Service Currently Unavailable", "ACQ.SYSTEM_ERROR", "接口返回错误")
}

func alipayDecline(op string) alipayAnswer {
	if op == opRefund {
		return alipayBusinessFailure("ACQ.SELLER_BALANCE_NOT_ENOUGH", "商户余额不足")
	}
	return alipayBusinessFailure("ACQ.BUYER_BALANCE_NOT_ENOUGH", "买家余额不足")
}

// alipayRequest checks the common parameters and the signature.
func (s *Simulator) alipayRequest(form url.Values) (alipayContent, alipayAnswer) {
	invalid := func(subCode, subMsg string) (alipayContent, alipayAnswer) {
		return alipayContent{}, alipayFailure("40002", "Invalid Arguments", subCode, subMsg)
	}
	switch {
	case form.Get("app_id") != s.options.Keys.AlipayAppID:
		return invalid("isv.invalid-app-id", "无效的AppID参数")
	case form.Get("sign_type") != "RSA2":
		return invalid("isv.invalid-signature-type", "无效的签名类型")
	case form.Get("sign") == "":
		return alipayContent{}, alipayFailure("40001", "Missing Required Arguments", "isv.missing-signature", "缺少签名参数")
	case !verifyRSA2(&s.options.Keys.alipayMerchant.PublicKey, signedText(form, "sign"), form.Get("sign")):
		return invalid("isv.invalid-signature", "验签出错")
	case form.Get("version") != "1.0":
		return alipayContent{}, alipayFailure("40001", "Missing Required Arguments", "isv.missing-version", "缺少版本参数")
	case !strings.EqualFold(form.Get("charset"), "utf-8"):
		return invalid("isv.invalid-charset", "字符集错误")
	}
	if _, err := time.Parse(time.DateTime, form.Get("timestamp")); err != nil {
		return invalid("isv.invalid-timestamp", "非法的时间戳参数")
	}
	var content alipayContent
	if err := json.Unmarshal([]byte(form.Get("biz_content")), &content); err != nil {
		return invalid("isv.invalid-parameter", "参数无效")
	}
	return content, nil
}

// alipayCall does what the method says. It returns the trade whose buyer has
// just paid, if one has.
func (s *Simulator) alipayCall(method string, content alipayContent, notifyURL string) (alipayAnswer, *trade) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch method {
	case "alipay.trade.create", "alipay.trade.pay", "alipay.trade.precreate":
		return s.alipayCharge(method, content, notifyURL)
	}
	t, ok := s.trades[tradeKey{alipay, content.OutTradeNo}]
	if !ok {
		return alipayBusinessFailure("ACQ.TRADE_NOT_EXIST", "交易不存在"), nil
	}
	switch method {
	case "alipay.trade.query":
		return alipayOK(alipayAnswer{
			"trade_no": t.tradeNo, "out_trade_no": t.outTradeNo, "trade_status": alipayStatus(t),
			"total_amount": yuan(t.amount), "buyer_user_id": "2088000000000001",
		}), nil
	case "alipay.trade.close", "alipay.trade.cancel":
		if t.status == paid && method == "alipay.trade.close" {
			return alipayBusinessFailure("ACQ.TRADE_STATUS_ERROR", "交易状态不合法"), nil
		}
		if t.status == paid && t.refunded() == 0 {
			s.giveBack(t, "cancel", t.amount)
		}
		t.status = closed
		return alipayOK(alipayAnswer{"trade_no": t.tradeNo, "out_trade_no": t.outTradeNo}), nil
	case "alipay.trade.refund":
		return s.alipayRefund(t, content), nil
	default:
		answer := alipayAnswer{"trade_no": t.tradeNo, "out_trade_no": t.outTradeNo, "out_request_no": content.OutRequestNo}
		if amount, ok := t.refunds[content.OutRequestNo]; ok {
			answer["refund_status"], answer["refund_amount"] = "REFUND_SUCCESS", yuan(amount)
			answer["total_amount"] = yuan(t.amount)
		}
		return alipayOK(answer), nil
	}
}

func (s *Simulator) alipayCharge(method string, content alipayContent, notifyURL string) (alipayAnswer, *trade) {
	total, err := money.ParseDecimal(content.TotalAmount, "CNY")
	switch {
	case err != nil || total.Amount < 1 || content.OutTradeNo == "" || len(content.OutTradeNo) > 64:
		return alipayBusinessFailure("ACQ.INVALID_PARAMETER", "参数无效"), nil
	case content.Subject == "":
		return alipayBusinessFailure("ACQ.INVALID_PARAMETER", "订单标题为空"), nil
	case method == "alipay.trade.pay" && content.AuthCode == "":
		return alipayBusinessFailure("ACQ.PAYMENT_AUTH_CODE_INVALID", "支付授权码无效"), nil
	}
	key := tradeKey{alipay, content.OutTradeNo}
	fingerprint := strings.Join([]string{content.TotalAmount, content.Subject, content.BuyerID, content.BuyerOpenID}, "\n")
	t, exists := s.trades[key]
	switch {
	case exists && t.status == closed:
		return alipayBusinessFailure("ACQ.TRADE_HAS_CLOSE", "交易已经关闭"), nil
	case exists && t.fingerprint != fingerprint:
		return alipayBusinessFailure("ACQ.CONTEXT_INCONSISTENT", "交易信息被篡改"), nil
	case exists && t.status == paid:
		return alipayBusinessFailure("ACQ.TRADE_HAS_SUCCESS", "交易已被支付"), nil
	}
	if !exists {
		t = &trade{
			tradeKey: key, tradeNo: s.nextNumber(), amount: total.Amount, currency: "CNY", fingerprint: fingerprint,
			subject: content.Subject, notifyURL: notifyURL, createdAt: time.Now(), refunds: map[string]int64{},
		}
		s.trades[key] = t
	}
	var moved *trade
	if !s.options.ManualBuyer {
		s.pay(t)
		moved = t
	}
	answer := alipayOK(alipayAnswer{"out_trade_no": t.outTradeNo, "trade_no": t.tradeNo})
	switch method {
	case "alipay.trade.precreate":
		delete(answer, "trade_no")
		answer["qr_code"] = "https://qr.alipay.com/bax" + t.tradeNo
	case "alipay.trade.pay":
		answer["total_amount"], answer["buyer_pay_amount"] = yuan(t.amount), yuan(t.amount)
		if t.status == waiting {
			answer["code"], answer["msg"] = "10003", "order success pay inprocess"
		}
	}
	return answer, moved
}

func (s *Simulator) alipayRefund(t *trade, content alipayContent) alipayAnswer {
	amount, err := money.ParseDecimal(content.RefundAmount, "CNY")
	number := content.OutRequestNo
	if number == "" {
		number = t.outTradeNo
	}
	before, again := t.refunds[number]
	switch {
	case err != nil || amount.Amount < 1:
		return alipayBusinessFailure("ACQ.INVALID_PARAMETER", "参数无效")
	case t.status != paid && !again:
		return alipayBusinessFailure("ACQ.TRADE_STATUS_ERROR", "交易状态不合法")
	case again && before != amount.Amount:
		return alipayBusinessFailure("ACQ.DISCORDANT_REPEAT_REQUEST", "请求信息不一致")
	case !again && t.refunded()+amount.Amount > t.amount:
		return alipayBusinessFailure("ACQ.REFUND_AMT_NOT_EQUAL_TOTAL", "退款金额超限")
	}
	change := "N"
	if !again {
		s.giveBack(t, number, amount.Amount)
		change = "Y"
	}
	return alipayOK(alipayAnswer{
		"trade_no": t.tradeNo, "out_trade_no": t.outTradeNo, "fund_change": change, "refund_fee": yuan(t.refunded()),
	})
}

func alipayStatus(t *trade) string {
	switch {
	case t.status == waiting:
		return "WAIT_BUYER_PAY"
	case t.status == paid && t.refunded() < t.amount:
		return "TRADE_SUCCESS"
	default:
		return "TRADE_CLOSED"
	}
}

// alipayMessage is the form that Alipay posts (opendocs.alipay.com/open/270/105902).
func (s *Simulator) alipayMessage(t *trade, event string) (message, error) {
	form := url.Values{}
	set := func(name, value string) { form.Set(name, value) }
	set("app_id", s.options.Keys.AlipayAppID)
	set("charset", "utf-8")
	set("version", "1.0")
	set("sign_type", "RSA2")
	set("notify_type", "trade_status_sync")
	set("notify_time", time.Now().In(alipayZone).Format(time.DateTime))
	sum := sha256.Sum256([]byte(t.tradeNo + event))
	set("notify_id", fmt.Sprintf("%x", sum[:16]))
	set("trade_no", t.tradeNo)
	set("out_trade_no", t.outTradeNo)
	set("seller_id", "2088000000000002")
	set("buyer_id", "2088000000000001")
	set("subject", t.subject)
	set("total_amount", yuan(t.amount))
	set("gmt_create", t.createdAt.In(alipayZone).Format(time.DateTime))
	if event != "waiting" && event != "closed" {
		set("gmt_payment", t.createdAt.In(alipayZone).Format(time.DateTime))
		set("receipt_amount", yuan(t.amount))
		set("buyer_pay_amount", yuan(t.amount))
	}
	refund := func(kind string, amount int64) {
		set("refund_fee", yuan(amount))
		set("gmt_refund", time.Now().In(alipayZone).Format("2006-01-02 15:04:05.000"))
		set("out_biz_no", t.outTradeNo+"-"+kind)
	}
	switch event {
	case "waiting":
		set("trade_status", "WAIT_BUYER_PAY")
	case "paid":
		set("trade_status", "TRADE_SUCCESS")
	case "finished":
		set("trade_status", "TRADE_FINISHED")
	case "closed":
		set("trade_status", "TRADE_CLOSED")
	case "refund_partial":
		set("trade_status", "TRADE_SUCCESS")
		refund("partial", t.amount/2)
	case "refund_full":
		set("trade_status", "TRADE_CLOSED")
		refund("full", t.amount)
	default:
		return message{}, fmt.Errorf("alipay has no event %q", event)
	}
	signature, err := signRSA2(s.options.Keys.alipayPlatform, signedText(form, "sign", "sign_type"))
	if err != nil {
		return message{}, err
	}
	set("sign", signature)
	return message{
		url: s.target(t), contentType: "application/x-www-form-urlencoded; charset=utf-8", body: form.Encode(),
		accepted: func(a acknowledgement) bool { return a.Status == http.StatusOK && a.Body == "success" },
	}, nil
}

// alipayWrite signs the exact bytes of the node that it sends.
func (s *Simulator) alipayWrite(w http.ResponseWriter, method string, answer alipayAnswer) {
	node, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	signature, err := signRSA2(s.options.Keys.alipayPlatform, string(node))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html;charset=utf-8")
	_, _ = fmt.Fprintf(w, `{"%s_response":%s,"sign":"%s"}`, strings.ReplaceAll(method, ".", "_"), node, signature)
}

// signedText is what Alipay signs of a form: the parameters that have a value,
// sorted, but for some names (opendocs.alipay.com/common/02kf5q).
func signedText(form url.Values, without ...string) string {
	var pairs []string
	for name, values := range form {
		if !slices.Contains(without, name) && values[0] != "" {
			pairs = append(pairs, name+"="+values[0])
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

func signRSA2(key *rsa.PrivateKey, text string) (string, error) {
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return base64.StdEncoding.EncodeToString(signature), nil
}

func verifyRSA2(key *rsa.PublicKey, text, signature string) bool {
	decoded, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return false
	}
	digest := sha256.Sum256([]byte(text))
	return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], decoded) == nil
}

// yuan writes fen as Alipay does. Amounts here were parsed as CNY before.
func yuan(fen int64) string {
	text, _ := money.Money{Amount: fen, Currency: "CNY"}.Decimal()
	return text
}

// cutConnection ends the connection without an answer.
func cutConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}
