package alipay

import (
	sdk "github.com/smartwalle/alipay/v3"

	"github.com/payonce/payonce/internal/psp"
)

// codeHasSuccess says that the order is paid already; the query confirms it.
const codeHasSuccess = "ACQ.TRADE_HAS_SUCCESS"

// subCodes maps each sub_code to what it means for the money. A code that does
// not stand here is in doubt. docs/psp/alipay.md names the page of each.
var subCodes = map[string]psp.Verdict{
	// Alipay does not know itself: ask.
	"ACQ.SYSTEM_ERROR":     psp.InDoubt,
	"aop.ACQ.SYSTEM_ERROR": psp.InDoubt,
	"isp.unknow-error":     psp.InDoubt,
	codeHasSuccess:         psp.InDoubt,

	// Refused for good.
	"ACQ.ACCESS_FORBIDDEN":                     psp.Terminal,
	"ACQ.BEYOND_PAY_RESTRICTION":               psp.Terminal,
	"ACQ.BUYER_BALANCE_NOT_ENOUGH":             psp.Terminal,
	"ACQ.BUYER_BANKCARD_BALANCE_NOT_ENOUGH":    psp.Terminal,
	"ACQ.BUYER_ENABLE_STATUS_FORBID":           psp.Terminal,
	"ACQ.BUYER_PAYMENT_AMOUNT_DAY_LIMIT_ERROR": psp.Terminal,
	"ACQ.BUYER_SELLER_EQUAL":                   psp.Terminal,
	"ACQ.CONTEXT_INCONSISTENT":                 psp.Terminal,
	"ACQ.DISCORDANT_REPEAT_REQUEST":            psp.Terminal,
	"ACQ.REASON_TRADE_REFUND_FEE_ERR":          psp.Terminal,
	"ACQ.EXIST_FORBIDDEN_WORD":                 psp.Terminal,
	"ACQ.INVALID_PARAMETER":                    psp.Terminal,
	"ACQ.PARTNER_ERROR":                        psp.Terminal,
	"ACQ.PAYMENT_AUTH_CODE_INVALID":            psp.Terminal,
	"ACQ.PAYMENT_FAIL":                         psp.Terminal,
	"ACQ.REASON_TRADE_BEEN_FREEZEN":            psp.Terminal,
	"ACQ.REFUND_AMT_NOT_EQUAL_TOTAL":           psp.Terminal,
	"ACQ.SELLER_BALANCE_NOT_ENOUGH":            psp.Terminal,
	"ACQ.TOTAL_FEE_EXCEED":                     psp.Terminal,
	"ACQ.TRADE_BUYER_NOT_MATCH":                psp.Terminal,
	"ACQ.TRADE_HAS_CLOSE":                      psp.Terminal,
	"ACQ.TRADE_HAS_FINISHED":                   psp.Terminal,
	"ACQ.TRADE_NOT_ALLOW_REFUND":               psp.Terminal,
	"ACQ.TRADE_STATUS_ERROR":                   psp.Terminal,

	// Alipay has no such trade.
	"ACQ.TRADE_NOT_EXIST": psp.NotFound,

	// Refused at the gate, for our configuration's or the rate's sake: nothing
	// was done, and a later try may pass.
	"isv.invalid-signature":            psp.Transient,
	"isv.invalid-app-id":               psp.Transient,
	"isv.missing-signature":            psp.Transient,
	"isv.insufficient-isv-permissions": psp.Transient,
	"isv.app-call-limited":             psp.Transient,
	"isv.method-call-limited":          psp.Transient,
}

// codes judges an answer whose sub_code is empty.
var codes = map[sdk.Code]psp.Verdict{
	sdk.CodeUnknowError:      psp.InDoubt,
	sdk.CodeInvalidAuthToken: psp.Transient,
	sdk.CodeCallLimited:      psp.Transient,
	sdk.CodePermissionDenied: psp.Transient,
}

func classified(problem sdk.Error) psp.Result {
	result := psp.Result{Code: problem.SubCode, Message: problem.SubMsg}
	if problem.SubCode == "" {
		result.Code, result.Message = string(problem.Code), problem.Msg
		result.Verdict = codes[problem.Code]
		return result
	}
	result.Verdict = subCodes[problem.SubCode]
	return result
}
