package pspsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/payonce/payonce/internal/money"
)

const alipayName = "alipay"

// Alipay's side of the simulated trades.
const (
	alipayBuyerID      = "2088000000000001"
	alipayBuyerLogonID = "159****0001"
)

// alipayZone is the time zone of Alipay's times.
var alipayZone = time.FixedZone("CST", 8*60*60)

// alipayGateway is Alipay's open platform gateway.
type alipayGateway struct{ *Simulator }

func (g *alipayGateway) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /alipay/gateway.do", g.serve)
	mux.HandleFunc("GET /alipay/gateway.do", g.serve)
}

// alipayNode is the part of an answer that is signed.
type alipayNode map[string]any

func alipayOK(fields alipayNode) alipayNode {
	fields["code"], fields["msg"] = "10000", "Success"
	return fields
}

// alipayRefusal is a business failure: docs.open.alipay.com/api_1 lists the
// sub_codes of each method.
func alipayRefusal(subCode, subMsg string) alipayNode {
	return alipayNode{"code": "40004", "msg": "Business Failed", "sub_code": subCode, "sub_msg": subMsg}
}

// alipaySystemError leaves open whether anything was done.
func alipaySystemError() alipayNode {
	return alipayNode{
		"code": "20000", "msg": "Service Currently Unavailable", "sub_code": "aop.ACQ.SYSTEM_ERROR", "sub_msg": "系统异常",
	}
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

// alipayMethod is what one method does, under the simulator's lock.
type alipayMethod struct {
	op string
	do func(g *alipayGateway, c alipayContent, form url.Values) alipayNode
}

var alipayMethods = map[string]alipayMethod{
	"alipay.trade.create":               {opCharge, (*alipayGateway).create},
	"alipay.trade.pay":                  {opCharge, (*alipayGateway).payCode},
	"alipay.trade.precreate":            {opCharge, (*alipayGateway).precreate},
	"alipay.trade.query":                {opQuery, (*alipayGateway).query},
	"alipay.trade.close":                {"close", (*alipayGateway).close},
	"alipay.trade.cancel":               {"cancel", (*alipayGateway).cancel},
	"alipay.trade.refund":               {opRefund, (*alipayGateway).refund},
	"alipay.trade.fastpay.refund.query": {opQuery, (*alipayGateway).queryRefund},
}

// serve is gateway.do: opendocs.alipay.com/common/02kf5q.
func (g *alipayGateway) serve(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the request is not a form", http.StatusBadRequest)
		return
	}
	name := r.Form.Get("method")
	method, known := alipayMethods[name]
	if known {
		g.count(alipayName, method.op)
	}
	if refused := g.check(r.Form, known); refused != nil {
		alipayUnsigned(name, known, refused).write(w)
		return
	}
	var content alipayContent
	if err := json.Unmarshal([]byte(r.Form.Get("biz_content")), &content); err != nil {
		g.signed(name, alipayRefusal("ACQ.INVALID_PARAMETER", "参数无效")).write(w)
		return
	}
	answer, cut := g.perform(call{
		provider: alipayName, op: method.op,
		systemError: func() answer { return g.signed(name, alipaySystemError()) },
		refused:     func() answer { return g.signed(name, alipayDecline(method.op)) },
		do:          func() answer { return g.signed(name, method.do(g, content, r.Form)) },
	})
	if cut {
		cutConnection(w)
		return
	}
	answer.write(w)
}

// alipayRequired are the common parameters that are looked for once the
// application is known.
var alipayRequired = map[string]string{
	"sign": "isv.missing-signature", "sign_type": "isv.missing-signature-type",
	"timestamp": "isv.missing-timestamp", "version": "isv.missing-version",
}

// check looks at the common parameters and the signature, as the gateway does
// before any method runs; the application comes before the signature.
// opendocs.alipay.com/common/02km9f lists the codes.
func (g *alipayGateway) check(form url.Values, knownMethod bool) alipayNode {
	invalid := func(subCode, subMsg string) alipayNode {
		return alipayNode{"code": "40002", "msg": "Invalid Arguments", "sub_code": subCode, "sub_msg": subMsg}
	}
	missing := func(name, subCode string) alipayNode {
		return alipayNode{
			"code": "40001", "msg": "Missing Required Arguments", "sub_code": subCode, "sub_msg": "缺少" + name + "参数",
		}
	}
	_, badTime := time.Parse(time.DateTime, form.Get("timestamp"))
	keys := g.options.Keys
	switch {
	case form.Get("method") == "":
		return missing("method", "isv.missing-method")
	case !knownMethod:
		return invalid("isv.invalid-method", "不存在的方法名")
	case form.Get("app_id") == "":
		return missing("app_id", "isv.missing-app-id")
	case form.Get("app_id") != keys.AlipayAppID:
		return invalid("isv.invalid-app-id", "无效的AppID参数")
	}
	for name, subCode := range alipayRequired {
		if form.Get(name) == "" {
			return missing(name, subCode)
		}
	}
	switch {
	case form.Get("sign_type") != "RSA2":
		return invalid("isv.invalid-signature-type", "无效的签名类型")
	case form.Get("version") != "1.0" || (form.Get("format") != "" && !strings.EqualFold(form.Get("format"), "json")):
		return invalid("isv.invalid-parameter", "参数无效")
	case !strings.EqualFold(form.Get("charset"), "utf-8"):
		return invalid("isv.invalid-charset", "字符集错误")
	case badTime != nil:
		return invalid("isv.invalid-timestamp", "非法的时间戳参数")
	case !verifySHA256(&keys.alipayMerchant.PublicKey, alipaySignedText(form, "sign"), form.Get("sign")):
		return invalid("isv.invalid-signature", "验签出错")
	}
	return nil
}

func alipayDecline(op string) alipayNode {
	if op == opRefund {
		return alipayRefusal("ACQ.SELLER_BALANCE_NOT_ENOUGH", "商户余额不足")
	}
	return alipayRefusal("ACQ.BUYER_BALANCE_NOT_ENOUGH", "买家余额不足")
}

func (g *alipayGateway) create(c alipayContent, form url.Values) alipayNode {
	t, refused := g.charge(c, form)
	if refused != nil {
		return refused
	}
	return alipayOK(alipayNode{"out_trade_no": t.outTradeNo, "trade_no": t.tradeNo})
}

func (g *alipayGateway) precreate(c alipayContent, form url.Values) alipayNode {
	t, refused := g.charge(c, form)
	if refused != nil {
		return refused
	}
	return alipayOK(alipayNode{"out_trade_no": t.outTradeNo, "qr_code": "https://qr.alipay.com/bax" + t.tradeNo})
}

// payCode charges by the code that the buyer shows. A buyer who has yet to
// enter a password is 10003.
func (g *alipayGateway) payCode(c alipayContent, form url.Values) alipayNode {
	if c.AuthCode == "" {
		return alipayRefusal("ACQ.PAYMENT_AUTH_CODE_INVALID", "支付授权码无效")
	}
	t, refused := g.charge(c, form)
	if refused != nil {
		return refused
	}
	node := alipayOK(alipayNode{
		"out_trade_no": t.outTradeNo, "trade_no": t.tradeNo, "total_amount": yuan(t.amount),
		"buyer_user_id": alipayBuyerID, "buyer_logon_id": alipayBuyerLogonID,
	})
	if t.status == waiting {
		node["code"], node["msg"] = "10003", "order success pay inprocess"
		return node
	}
	node["receipt_amount"], node["buyer_pay_amount"] = yuan(t.amount), yuan(t.amount)
	node["gmt_payment"] = alipayTime(t.paidAt)
	return node
}

// charge opens the trade, or finds the one that the same request opened
// before. The codes for what does not fit stand at
// docs.open.alipay.com/api_1/alipay.trade.create.
func (g *alipayGateway) charge(c alipayContent, form url.Values) (*trade, alipayNode) {
	total, err := money.ParseDecimal(c.TotalAmount, "CNY")
	if err != nil || total.Amount < 1 || c.Subject == "" || c.OutTradeNo == "" || len(c.OutTradeNo) > 64 {
		return nil, alipayRefusal("ACQ.INVALID_PARAMETER", "参数无效")
	}
	key := tradeKey{alipayName, c.OutTradeNo}
	terms := fingerprint(yuan(total.Amount), c.Subject, c.BuyerID, c.BuyerOpenID)
	t, exists := g.byNumber[key]
	switch {
	case !exists:
		t = &trade{
			tradeKey: key, outTradeNo: c.OutTradeNo, tradeNo: g.nextNumber(), amount: total.Amount, currency: "CNY",
			terms: terms, subject: c.Subject, notifyURL: form.Get("notify_url"),
		}
		g.open(t)
	case alipayStatus(t) == alipayClosed:
		return nil, alipayRefusal("ACQ.TRADE_HAS_CLOSE", "交易已经关闭")
	case t.terms != terms:
		return nil, alipayRefusal("ACQ.CONTEXT_INCONSISTENT", "交易信息被篡改")
	case t.status == paid:
		return nil, alipayRefusal("ACQ.TRADE_HAS_SUCCESS", "交易已被支付")
	}
	g.payUnlessManual(t)
	return t, nil
}

// lookUp finds the trade; trade_no goes before out_trade_no.
func (g *alipayGateway) lookUp(c alipayContent) (*trade, alipayNode) {
	if c.TradeNo == "" && c.OutTradeNo == "" {
		return nil, alipayRefusal("ACQ.INVALID_PARAMETER", "参数无效")
	}
	t := g.byNumber[tradeKey{alipayName, c.OutTradeNo}]
	if c.TradeNo != "" {
		i := slices.IndexFunc(g.trades, func(t *trade) bool { return t.provider == alipayName && t.tradeNo == c.TradeNo })
		if t = nil; i >= 0 {
			t = g.trades[i]
		}
	}
	if t == nil {
		return nil, alipayRefusal("ACQ.TRADE_NOT_EXIST", "交易不存在")
	}
	return t, nil
}

func (g *alipayGateway) query(c alipayContent, _ url.Values) alipayNode {
	t, refused := g.lookUp(c)
	if refused != nil {
		return refused
	}
	node := alipayOK(alipayNode{
		"trade_no": t.tradeNo, "out_trade_no": t.outTradeNo, "trade_status": alipayStatus(t), "total_amount": yuan(t.amount),
		"buyer_user_id": alipayBuyerID, "buyer_logon_id": alipayBuyerLogonID,
	})
	if t.status == paid {
		node["send_pay_date"] = alipayTime(t.paidAt)
	}
	return node
}

// close ends a trade that waits for its buyer, and no other:
// docs.open.alipay.com/api_1/alipay.trade.close.
func (g *alipayGateway) close(c alipayContent, _ url.Values) alipayNode {
	t, refused := g.lookUp(c)
	if refused != nil {
		return refused
	}
	if t.status != waiting {
		return alipayRefusal("ACQ.TRADE_STATUS_ERROR", "交易状态不合法")
	}
	g.turnAway(t)
	g.announce(t, event{kind: eventClosed})
	return alipayOK(alipayNode{"trade_no": t.tradeNo, "out_trade_no": t.outTradeNo})
}

// cancel ends a trade, and gives the money back if it was paid. It succeeds for
// a trade that does not exist, then without an action:
// docs.open.alipay.com/api_1/alipay.trade.cancel.
func (g *alipayGateway) cancel(c alipayContent, _ url.Values) alipayNode {
	node := alipayOK(alipayNode{"out_trade_no": c.OutTradeNo, "retry_flag": "N"})
	t, refused := g.lookUp(c)
	if refused != nil {
		return node
	}
	node["trade_no"], node["out_trade_no"] = t.tradeNo, t.outTradeNo
	switch {
	case t.status == waiting:
		g.turnAway(t)
		node["action"] = "close"
	case t.status == closed:
		node["action"] = "close"
	case t.refunded() == 0:
		g.giveBack(t, refund{number: "cancel", amount: t.amount})
		node["action"] = "refund"
	case t.refunds[0].number == "cancel":
		node["action"] = "refund"
	default:
		return alipayRefusal("ACQ.REASON_TRADE_REFUND_FEE_ERR", "退款金额无效")
	}
	return node
}

// refund gives money back. Without an out_request_no it is for the whole
// amount; an out_request_no that was used is the same refund, and moves
// nothing: docs.open.alipay.com/api_1/alipay.trade.refund.
func (g *alipayGateway) refund(c alipayContent, _ url.Values) alipayNode {
	t, refused := g.lookUp(c)
	if refused != nil {
		return refused
	}
	amount, err := money.ParseDecimal(c.RefundAmount, "CNY")
	number := c.OutRequestNo
	if number == "" {
		number = t.outTradeNo
	}
	before, again := t.findRefund(number)
	fundChange := "N"
	switch {
	case err != nil || amount.Amount < 1:
		return alipayRefusal("ACQ.INVALID_PARAMETER", "参数无效")
	case again && before.amount != amount.Amount:
		return alipayRefusal("ACQ.DISCORDANT_REPEAT_REQUEST", "请求信息不一致")
	case again:
	case t.status != paid:
		return alipayRefusal("ACQ.TRADE_STATUS_ERROR", "交易状态不合法")
	case c.OutRequestNo == "" && amount.Amount != t.amount:
		return alipayRefusal("ACQ.REFUND_AMT_NOT_EQUAL_TOTAL", "撤销或退款金额与订单金额不一致")
	case t.refunded()+amount.Amount > t.amount:
		return alipayRefusal("ACQ.REASON_TRADE_REFUND_FEE_ERR", "退款金额无效")
	default:
		made := g.giveBack(t, refund{number: number, amount: amount.Amount})
		g.announce(t, refundEvent(t, made))
		fundChange = "Y"
	}
	return alipayOK(alipayNode{
		"trade_no": t.tradeNo, "out_trade_no": t.outTradeNo, "fund_change": fundChange, "refund_fee": yuan(t.refunded()),
		"buyer_user_id": alipayBuyerID, "buyer_logon_id": alipayBuyerLogonID,
	})
}

// queryRefund succeeds for a refund that was never made, then without a
// status: docs.open.alipay.com/api_1/alipay.trade.fastpay.refund.query.
func (g *alipayGateway) queryRefund(c alipayContent, _ url.Values) alipayNode {
	t, refused := g.lookUp(c)
	switch {
	case refused != nil:
		return refused
	case c.OutRequestNo == "":
		return alipayRefusal("ACQ.INVALID_PARAMETER", "参数无效")
	}
	made, ok := t.findRefund(c.OutRequestNo)
	if !ok {
		return alipayOK(alipayNode{})
	}
	return alipayOK(alipayNode{
		"trade_no": t.tradeNo, "out_trade_no": t.outTradeNo, "out_request_no": made.number, "refund_status": "REFUND_SUCCESS",
		"total_amount": yuan(t.amount), "refund_amount": yuan(made.amount), "gmt_refund_pay": alipayTime(made.at),
	})
}

const alipayClosed = "TRADE_CLOSED"

// alipayStatus is closed also for a trade that was refunded in full.
func alipayStatus(t *trade) string {
	switch {
	case t.status == waiting:
		return "WAIT_BUYER_PAY"
	case t.status == paid && t.refunded() < t.amount:
		return "TRADE_SUCCESS"
	default:
		return alipayClosed
	}
}

// message is the form that Alipay posts: opendocs.alipay.com/open/270/105902.
// A refund arrives under the status that the trade then has. An application
// chooses which of these it gets; here it gets all of them.
func (g *alipayGateway) message(t *trade, e event) (message, error) {
	form := url.Values{}
	set := func(name, value string) { form.Set(name, value) }
	set("app_id", g.options.Keys.AlipayAppID)
	set("charset", "utf-8")
	set("version", "1.0")
	set("sign_type", "RSA2")
	set("notify_type", "trade_status_sync")
	set("notify_id", fingerprint(t.tradeNo, e.kind, e.refund.number)[:34])
	set("notify_time", alipayTime(time.Now()))
	set("trade_no", t.tradeNo)
	set("out_trade_no", t.outTradeNo)
	set("seller_id", g.options.Keys.AlipaySellerID)
	set("buyer_id", alipayBuyerID)
	set("buyer_logon_id", alipayBuyerLogonID)
	set("subject", t.subject)
	set("total_amount", yuan(t.amount))
	set("gmt_create", alipayTime(t.createdAt))
	paid := func(status string) {
		set("trade_status", status)
		set("gmt_payment", alipayTime(orCreated(t, t.paidAt)))
		set("receipt_amount", yuan(t.amount))
		set("buyer_pay_amount", yuan(t.amount))
	}
	refunded := func(status string) {
		paid(status)
		set("refund_fee", yuan(e.refund.total))
		set("out_biz_no", e.refund.number)
		set("gmt_refund", e.refund.at.In(alipayZone).Format("2006-01-02 15:04:05.000"))
	}
	switch e.kind {
	case eventWaiting:
		set("trade_status", "WAIT_BUYER_PAY")
	case eventPaid:
		paid("TRADE_SUCCESS")
	case eventFinished:
		paid("TRADE_FINISHED")
	case eventClosed:
		set("trade_status", alipayClosed)
		set("gmt_close", alipayTime(orCreated(t, t.closedAt)))
	case eventRefundPartial:
		refunded("TRADE_SUCCESS")
	case eventRefundFull:
		refunded(alipayClosed)
		set("gmt_close", alipayTime(e.refund.at))
	default:
		return message{}, noEvent(alipayName, e.kind)
	}
	signature, err := signSHA256(g.options.Keys.alipayPlatform, alipaySignedText(form, "sign", "sign_type"))
	if err != nil {
		return message{}, err
	}
	set("sign", signature)
	return message{
		url: g.target(alipayName, t.notifyURL), body: form.Encode(),
		header: func() (http.Header, error) {
			return http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}}, nil
		},
		accepted: func(a acknowledgement) bool { return a.Status == http.StatusOK && a.Body == "success" },
	}, nil
}

// orCreated is a moment of the trade, or when it was made where the moment has
// not come: a notification that somebody asks for may run ahead of its trade.
func orCreated(t *trade, moment time.Time) time.Time {
	if moment.IsZero() {
		return t.createdAt
	}
	return moment
}

func alipayTime(t time.Time) string { return t.In(alipayZone).Format(time.DateTime) }

// signed signs the exact bytes of the node that it sends.
func (g *alipayGateway) signed(method string, node alipayNode) answer {
	content, err := json.Marshal(node)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	signature, err := signSHA256(g.options.Keys.alipayPlatform, string(content))
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	return alipayAnswer(fmt.Sprintf(`{"%s":%s,"sign":"%s"}`, alipayNodeName(method), content, signature))
}

// alipayUnsigned is a refusal by the gateway itself, which carries no
// signature; a method that does not exist has no node of its own.
func alipayUnsigned(method string, known bool, node alipayNode) answer {
	name := "error_response"
	if known {
		name = alipayNodeName(method)
	}
	content, err := json.Marshal(node)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	return alipayAnswer(fmt.Sprintf(`{"%s":%s}`, name, content))
}

func alipayNodeName(method string) string { return strings.ReplaceAll(method, ".", "_") + "_response" }

func alipayAnswer(body string) answer {
	return answer{
		status: http.StatusOK, header: http.Header{"Content-Type": {"text/html;charset=utf-8"}}, body: []byte(body),
	}
}

// alipaySignedText is what Alipay signs of a form: the parameters that have a
// value, sorted, but for some names (opendocs.alipay.com/common/02kf5q).
func alipaySignedText(form url.Values, without ...string) string {
	var pairs []string
	for name, values := range form {
		if !slices.Contains(without, name) && values[0] != "" {
			pairs = append(pairs, name+"="+values[0])
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// yuan writes fen as Alipay does. Amounts here were parsed as CNY before.
func yuan(fen int64) string {
	text, _ := money.Money{Amount: fen, Currency: "CNY"}.Decimal()
	return text
}
