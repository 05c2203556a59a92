package alipay

import (
	"errors"

	sdk "github.com/smartwalle/alipay/v3"

	"github.com/payonce/payonce/internal/psp"
)

// Codes that need more than a verdict.
const (
	// codeHasSuccess says that the order is paid already.
	codeHasSuccess = "ACQ.TRADE_HAS_SUCCESS"
	// codeAuthCodeInvalid says that the buyer's code is wrong or used up, be
	// it by this very order.
	codeAuthCodeInvalid = "ACQ.PAYMENT_AUTH_CODE_INVALID"
	// codeTradeNotExist is NotFound where it answers a query.
	codeTradeNotExist = "ACQ.TRADE_NOT_EXIST"
)

// verdicts are what a code means for the money of a charge and of a refund;
// zero, which is in doubt, for the one that it is not documented for.
type verdicts struct{ charge, refund psp.Verdict }

// codes maps each sub_code, and each code that comes without one, to what it
// means. A code that does not stand here is in doubt. docs/psp/alipay.md names
// the page of each.
var codes = map[string]verdicts{
	// Alipay does not know itself: ask.
	"20000":            {},
	"isp.unknow-error": {},
	"aop.unknow-error": {},
	"ACQ.SYSTEM_ERROR": {},

	// The trade is past being charged, and may be paid: ask.
	codeHasSuccess:           {},
	"ACQ.TRADE_HAS_FINISHED": {refund: psp.Terminal},
	"ACQ.TRADE_STATUS_ERROR": {refund: psp.Terminal},

	// Charges and refunds that are refused for good.
	"ACQ.BUYER_ENABLE_STATUS_FORBID": {charge: psp.Terminal, refund: psp.Terminal},
	"ACQ.BUYER_NOT_EXIST":            {charge: psp.Terminal, refund: psp.Terminal},
	"ACQ.CURRENCY_NOT_SUPPORT":       {charge: psp.Terminal, refund: psp.Terminal},
	"ACQ.INVALID_PARAMETER":          {charge: psp.Terminal, refund: psp.Terminal},
	"ACQ.TRADE_HAS_CLOSE":            {charge: psp.Terminal, refund: psp.Terminal},

	// Charges that are refused for good.
	"ACQ.ACCESS_FORBIDDEN":                       {charge: psp.Terminal},
	"ACQ.AMOUNT_OR_CURRENCY_ERROR":               {charge: psp.Terminal},
	"ACQ.BEYOND_PAY_RESTRICTION":                 {charge: psp.Terminal},
	"ACQ.BEYOND_PER_RECEIPT_RESTRICTION":         {charge: psp.Terminal},
	"ACQ.BUYER_BALANCE_NOT_ENOUGH":               {charge: psp.Terminal},
	"ACQ.BUYER_BANKCARD_BALANCE_NOT_ENOUGH":      {charge: psp.Terminal},
	"ACQ.BUYER_PAYMENT_AMOUNT_DAY_LIMIT_ERROR":   {charge: psp.Terminal},
	"ACQ.BUYER_PAYMENT_AMOUNT_MONTH_LIMIT_ERROR": {charge: psp.Terminal},
	"ACQ.BUYER_SELLER_EQUAL":                     {charge: psp.Terminal},
	"ACQ.CONTEXT_INCONSISTENT":                   {charge: psp.Terminal},
	"ACQ.ERROR_BALANCE_PAYMENT_DISABLE":          {charge: psp.Terminal},
	"ACQ.ERROR_BUYER_CERTIFY_LEVEL_LIMIT":        {charge: psp.Terminal},
	"ACQ.EXIST_FORBIDDEN_WORD":                   {charge: psp.Terminal},
	"ACQ.INVALID_STORE_ID":                       {charge: psp.Terminal},
	"ACQ.MERCHANT_AGREEMENT_INVALID":             {charge: psp.Terminal},
	"ACQ.MERCHANT_AGREEMENT_NOT_EXIST":           {charge: psp.Terminal},
	"ACQ.MERCHANT_STATUS_NOT_NORMAL":             {charge: psp.Terminal},
	"ACQ.MOBILE_PAYMENT_SWITCH_OFF":              {charge: psp.Terminal},
	"ACQ.NO_PAYMENT_INSTRUMENTS_AVAILABLE":       {charge: psp.Terminal},
	"ACQ.PARTNER_ERROR":                          {charge: psp.Terminal},
	codeAuthCodeInvalid:                          {charge: psp.Terminal},
	"ACQ.PAYMENT_FAIL":                           {charge: psp.Terminal},
	"ACQ.PAYMENT_REQUEST_HAS_RISK":               {charge: psp.Terminal},
	"ACQ.PULL_MOBILE_CASHIER_FAIL":               {charge: psp.Terminal},
	"ACQ.SELLER_BEEN_BLOCKED":                    {charge: psp.Terminal},
	"ACQ.TOTAL_FEE_EXCEED":                       {charge: psp.Terminal},
	"ACQ.TRADE_BUYER_NOT_MATCH":                  {charge: psp.Terminal},
	"ACQ.USER_FACE_PAYMENT_SWITCH_OFF":           {charge: psp.Terminal},

	// Refunds that are refused for good.
	"ACQ.BUYER_ERROR":                           {refund: psp.Terminal},
	"ACQ.CUSTOMER_VALIDATE_ERROR":               {refund: psp.Terminal},
	"ACQ.DISCORDANT_REPEAT_REQUEST":             {refund: psp.Terminal},
	"ACQ.NOT_ALLOW_PARTIAL_REFUND":              {refund: psp.Terminal},
	"ACQ.ONLINE_TRADE_VOUCHER_NOT_ALLOW_REFUND": {refund: psp.Terminal},
	"ACQ.REASON_TRADE_BEEN_FREEZEN":             {refund: psp.Terminal},
	"ACQ.REASON_TRADE_REFUND_FEE_ERR":           {refund: psp.Terminal},
	"ACQ.REASON_TRADE_STATUS_INVALID":           {refund: psp.Terminal},
	"ACQ.REFUND_ACCOUNT_NOT_EXIST":              {refund: psp.Terminal},
	"ACQ.REFUND_AMT_NOT_EQUAL_TOTAL":            {refund: psp.Terminal},
	"ACQ.REFUND_FEE_ERROR":                      {refund: psp.Terminal},
	"ACQ.SELLER_BALANCE_NOT_ENOUGH":             {refund: psp.Terminal},
	"ACQ.TRADE_NOT_ALLOW_REFUND":                {refund: psp.Terminal},
	codeTradeNotExist:                           {refund: psp.Terminal},
	"ACQ.USER_NOT_MATCH_ERR":                    {refund: psp.Terminal},

	// Refused at the gate, for our configuration's or the rate's sake: no
	// trade was touched, and a later try may pass.
	"20001":                            atTheGate,
	"40001":                            atTheGate,
	"40002":                            atTheGate,
	"40005":                            atTheGate,
	"40006":                            atTheGate,
	"aop.app-auth-token-time-out":      atTheGate,
	"aop.auth-token-time-out":          atTheGate,
	"aop.invalid-app-auth-token":       atTheGate,
	"aop.invalid-auth-token":           atTheGate,
	"isv.app-call-limited":             atTheGate,
	"isv.forbidden-api":                atTheGate,
	"isv.insufficient-isv-permissions": atTheGate,
	"isv.invalid-app-id":               atTheGate,
	"isv.invalid-charset":              atTheGate,
	"isv.invalid-format":               atTheGate,
	"isv.invalid-method":               atTheGate,
	"isv.invalid-parameter":            atTheGate,
	"isv.invalid-signature":            atTheGate,
	"isv.invalid-signature-type":       atTheGate,
	"isv.invalid-timestamp":            atTheGate,
	"isv.method-call-limited":          atTheGate,
	"isv.missing-app-id":               atTheGate,
	"isv.missing-method":               atTheGate,
	"isv.missing-signature":            atTheGate,
	"isv.missing-signature-config":     atTheGate,
	"isv.missing-signature-key":        atTheGate,
	"isv.missing-signature-type":       atTheGate,
	"isv.missing-timestamp":            atTheGate,
	"isv.missing-version":              atTheGate,
}

var atTheGate = verdicts{charge: psp.Transient, refund: psp.Transient}

// operation is what an answer answers.
type operation int

const (
	charging operation = iota
	refunding
	asking
)

// classified judges a refusal. One of a query tells nothing about the trade,
// but that there is none.
func classified(op operation, problem sdk.Error) psp.Result {
	result := psp.Result{Code: problem.SubCode, Message: problem.SubMsg}
	if problem.SubCode == "" {
		result.Code, result.Message = string(problem.Code), problem.Msg
	}
	switch op {
	case charging:
		result.Verdict = codes[result.Code].charge
	case refunding:
		result.Verdict = codes[result.Code].refund
	case asking:
		if result.Code == codeTradeNotExist {
			result.Verdict = psp.NotFound
		}
	}
	return result
}

// failure judges an answer that is not a success, or an error instead of one.
// status reads the answer, which is nil where there is none.
func failure[A any](op operation, err error, answer *A, status func() sdk.Error) (psp.Result, bool) {
	var unsigned *sdk.Error
	switch {
	case errors.As(err, &unsigned) && unsigned != nil:
		return doubted(op, *unsigned), true
	case errors.Is(err, psp.ErrUnsent) && op != asking:
		return psp.Result{Verdict: psp.Transient, Err: err, Message: "Alipay could not be reached"}, true
	case err != nil:
		return psp.Result{Verdict: psp.InDoubt, Err: err}, true
	case answer == nil:
		return psp.Result{Verdict: psp.InDoubt, Err: errors.New("alipay: the answer is empty")}, true
	}
	if problem := status(); problem.IsFailure() {
		return classified(op, problem), true
	}
	return psp.Result{}, false
}

// doubted judges a refusal without Alipay's signature. The gateway leaves it
// out where it does not know the application; nothing else that comes without
// it is believed.
func doubted(op operation, problem sdk.Error) psp.Result {
	result := classified(op, problem)
	if result.Verdict != psp.Transient {
		result.Verdict = psp.InDoubt
	}
	return result
}
