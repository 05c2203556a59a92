package wechat

import (
	"context"
	"errors"
	"net/http"

	"github.com/wechatpay-apiv3/wechatpay-go/core"

	"github.com/payonce/payonce/internal/psp"
)

// Codes that need more than a verdict.
const (
	// codeOrderPaid says that the order is paid already.
	codeOrderPaid = "ORDERPAID"
	// codeNumberUsed says that the number was used with other parameters, and
	// codeInvalidRequest, among other things, too.
	codeNumberUsed     = "OUT_TRADE_NO_USED"
	codeInvalidRequest = "INVALID_REQUEST"
	// These are NotFound where they answer a query: of an order, of a refund.
	codeOrderNotExist     = "ORDER_NOT_EXIST"
	codeOrderNotExistOld  = "ORDERNOTEXIST"
	codeResourceNotExists = "RESOURCE_NOT_EXISTS"
)

// verdicts are what a code means for the money of a charge and of a refund;
// zero, which is in doubt, for the one that it is not documented for.
type verdicts struct{ charge, refund psp.Verdict }

var (
	refused = verdicts{charge: psp.Terminal, refund: psp.Terminal}
	// atTheGate is refused for our configuration's or the rate's sake: nothing
	// was done, and a later try may pass.
	atTheGate = verdicts{charge: psp.Transient, refund: psp.Transient}
)

// codes maps each code to what it means. A code that does not stand here is in
// doubt. docs/psp/wechat.md names the page of each, and the HTTP status that
// it comes with. Editions of one page spell some codes differently.
var codes = map[string]verdicts{
	// WeChat Pay does not know itself: ask.
	"SYSTEM_ERROR": {},
	"SYSTEMERROR":  {},
	"BANK_ERROR":   {},
	"BANKERROR":    {},

	// The order is past being opened, and may be paid: ask.
	codeOrderPaid: {},

	// Not what a new order or a refund can be told: ask.
	codeOrderNotExist:       {},
	codeOrderNotExistOld:    {},
	"INVALID_TRANSACTIONID": {},

	// The buyer is at it.
	"USERPAYING": {charge: psp.Pending},

	// Charges and refunds that are refused for good.
	codeInvalidRequest: refused,
	"NOT_ENOUGH":       refused,
	"NO_AUTH":          refused,
	"PARAM_ERROR":      refused,

	// Charges that are refused for good.
	"ACCOUNTERROR":    {charge: psp.Terminal},
	"ACCOUNT_ERROR":   {charge: psp.Terminal},
	"NOAUTH":          {charge: psp.Terminal},
	"NOTENOUGH":       {charge: psp.Terminal},
	"OPENID_MISMATCH": {charge: psp.Terminal},
	"ORDERCLOSED":     {charge: psp.Terminal},
	"ORDER_CLOSED":    {charge: psp.Terminal},
	codeNumberUsed:    {charge: psp.Terminal},
	"TRADE_ERROR":     {charge: psp.Terminal},

	// Refunds that are refused for good.
	codeResourceNotExists:   {refund: psp.Terminal},
	"USER_ACCOUNT_ABNORMAL": {refund: psp.Terminal},

	// Refused at the gate. A refund that comes too often may be under way all
	// the same, and is asked about.
	"APPID_MCHID_NOT_MATCH": {charge: psp.Transient},
	"FREQUENCY_LIMITED":     {charge: psp.Transient},
	"MCH_NOT_EXISTS":        atTheGate,
	"RULELIMIT":             {charge: psp.Transient},
	"RULE_LIMIT":            {charge: psp.Transient},
	"SIGN_ERROR":            atTheGate,
}

// tradeStates are what a query's trade_state says about the charge (pages
// 4012791859, 4012556352). One that does not stand here is in doubt. An order
// of which any part was refunded is REFUND: it was paid.
var tradeStates = map[string]psp.Verdict{
	"SUCCESS":    psp.Succeeded,
	"REFUND":     psp.Succeeded,
	"NOTPAY":     psp.Pending,
	"USERPAYING": psp.Pending,
	"ACCEPT":     psp.Pending,
	"CLOSED":     psp.Terminal,
	"REVOKED":    psp.Terminal,
	"PAYERROR":   psp.Terminal,
}

// Refund states (page 4013071031).
const (
	refundSuccess  = "SUCCESS"
	refundClosed   = "CLOSED"
	refundAbnormal = "ABNORMAL"
)

// refundStates are what a refund's status says. ABNORMAL is not the end: the
// money has left the merchant and waits at WeChat Pay until somebody says on
// the merchant platform where to.
var refundStates = map[string]psp.Verdict{
	refundSuccess:  psp.Succeeded,
	"PROCESSING":   psp.Pending,
	refundAbnormal: psp.Pending,
	refundClosed:   psp.Terminal,
}

// operation is what an answer answers.
type operation int

const (
	charging operation = iota
	refunding
	askingOrder
	askingRefund
)

func (op operation) asks() bool { return op == askingOrder || op == askingRefund }

// refusal is a failure that WeChat Pay told.
type refusal struct {
	status        int
	code, message string
}

// classified judges a refusal. One of a query tells nothing about the money,
// but that there is no such order or refund. A request whose signature does not
// verify is not executed and answered 401, whatever the code
// (pay.weixin.qq.com/wiki/doc/apiv3_partner/wechatpay/wechatpay3_3.shtml).
func classified(op operation, r refusal) psp.Result {
	result := psp.Result{Code: r.code, Message: r.message}
	known, listed := codes[r.code]
	if !listed && r.status == http.StatusUnauthorized {
		known = atTheGate
	}
	switch op {
	case charging:
		result.Verdict = known.charge
	case refunding:
		result.Verdict = known.refund
	case askingOrder:
		if r.status == http.StatusNotFound && (r.code == codeOrderNotExist || r.code == codeOrderNotExistOld) {
			result.Verdict = psp.NotFound
		}
	case askingRefund:
		if r.status == http.StatusNotFound && r.code == codeResourceNotExists {
			result.Verdict = psp.NotFound
		}
	}
	return result
}

// failure judges an error. The SDK verifies the signature of successes alone,
// so that of a refusal is verified here: WeChat Pay signs every answer to a
// request whose own signature was right.
func (p *Provider) failure(ctx context.Context, op operation, answer *core.APIResult, err error) psp.Result {
	var told *core.APIError
	switch {
	case errors.Is(err, psp.ErrUnsent) && !op.asks():
		return psp.Result{Verdict: psp.Transient, Err: err, Message: "WeChat Pay could not be reached"}
	case !errors.As(err, &told) || answer == nil || answer.Response == nil:
		return psp.Result{Verdict: psp.InDoubt, Err: err}
	}
	// The body of an answer can overwrite the fields of told, all but its code
	// and message are taken from the answer itself.
	result := classified(op, refusal{status: answer.Response.StatusCode, code: told.Code, message: told.Message})
	if answer.Response.Header.Get(headerSignature) == "" {
		return unsigned(result)
	}
	if err := p.answers.Validate(ctx, answer.Response); err != nil {
		result.Verdict, result.Err = psp.InDoubt, errors.New("wechat: the answer's signature does not verify")
	}
	return result
}

// unsigned judges a refusal without WeChat Pay's signature: it leaves that out
// where the request's signature is wrong. Nothing else that comes without it is
// believed.
func unsigned(result psp.Result) psp.Result {
	if result.Verdict != psp.Transient {
		result.Verdict = psp.InDoubt
	}
	return result
}
