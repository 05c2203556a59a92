package alipay

import (
	"context"
	"regexp"
	"unicode/utf8"

	sdk "github.com/smartwalle/alipay/v3"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
)

// What alipay.trade.create takes (docs.open.alipay.com/api_1/alipay.trade.create):
// a subject of up to 256 characters without / = &, and 0.01 to 100000000 yuan.
const (
	maxSubject = 256
	maxAmount  = 100_000_000_00
)

var (
	// The page allows an out_trade_no 64 letters, digits and underscores.
	// Alipay takes hyphens too: the notification that its own page shows is
	// for 0719141034-6418 (opendocs.alipay.com/open/270/105902).
	outTradeNo = regexp.MustCompile(`^[A-Za-z0-9_\-]{1,64}$`)
	badSubject = regexp.MustCompile(`[/=&]`)
	// knownFields are the request fields of our API that Alipay is handed,
	// each with its greatest length in characters.
	knownFields = map[string]int{
		"auth_code": 64, "buyer_id": 28, "buyer_open_id": 128, "op_app_id": 32, "product_code": 64,
		"store_id": 32, "operator_id": 28, "terminal_id": 32, "timeout_express": 6,
	}
)

// The ways of paying: an order that the buyer pays in Alipay, a code that the
// buyer shows, a code that the buyer scans.
const (
	methodCreate    = "create"
	methodPay       = "pay"
	methodPrecreate = "precreate"
)

// methodOf takes native, the word for a scanned code at WeChat Pay, for
// precreate.
func methodOf(request psp.ChargeRequest) string {
	switch {
	case request.Method == "native":
		return methodPrecreate
	case request.Method != "":
		return request.Method
	case request.Fields["auth_code"] != "":
		return methodPay
	default:
		return methodCreate
	}
}

// Validate implements psp.Provider.
func (p *Provider) Validate(request psp.ChargeRequest) error {
	switch {
	case request.Money.Currency != "CNY":
		return &psp.FieldError{Field: "currency", Problem: "must be CNY for alipay"}
	case request.Money.Amount < 1 || request.Money.Amount > maxAmount:
		return &psp.FieldError{Field: "amount", Problem: "must be 1 to 10000000000 fen for alipay"}
	case !outTradeNo.MatchString(request.OrderID):
		return &psp.FieldError{Field: "order_id", Problem: "must have 1 to 64 letters, digits, _ or - for alipay"}
	case utf8.RuneCountInString(request.Subject) > maxSubject || badSubject.MatchString(request.Subject):
		return &psp.FieldError{Field: "subject", Problem: "must have at most 256 characters and no / = & for alipay"}
	}
	for name, value := range request.Fields {
		limit, known := knownFields[name]
		if !known {
			return &psp.FieldError{Field: name, Problem: "is not a field that alipay takes"}
		}
		if utf8.RuneCountInString(value) > limit {
			return &psp.FieldError{Field: name, Problem: "is longer than alipay takes"}
		}
	}
	return validateMethod(request)
}

func validateMethod(request psp.ChargeRequest) error {
	code := request.Fields["auth_code"]
	switch methodOf(request) {
	case methodPay:
		if code == "" {
			return &psp.FieldError{Field: "auth_code", Problem: "is missing: method pay needs the buyer's code"}
		}
	case methodCreate, methodPrecreate:
		if code != "" {
			return &psp.FieldError{Field: "auth_code", Problem: "is only for method pay"}
		}
	default:
		return &psp.FieldError{Field: "method", Problem: "must be create, pay, precreate or native for alipay"}
	}
	return nil
}

// Charge implements psp.Provider. Verdict Succeeded is only for method pay,
// and for an order that turns out to be paid already: Paid is then what Alipay
// says was paid, which the caller compares with the order.
func (p *Provider) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	yuan, err := request.Money.Decimal()
	if err != nil {
		return psp.Result{Verdict: psp.Transient, Err: err}
	}
	trade := sdk.Trade{
		OutTradeNo: request.OrderID, TotalAmount: yuan, Subject: subjectOf(request), SellerId: p.config.SellerID,
		NotifyURL: p.notifyURL(request.NotifyURL), ProductCode: request.Fields["product_code"],
		StoreId: request.Fields["store_id"], TimeoutExpress: request.Fields["timeout_express"],
	}
	var result psp.Result
	switch methodOf(request) {
	case methodPay:
		result = p.pay(ctx, trade, request)
	case methodPrecreate:
		result = p.precreate(ctx, trade, request)
	default:
		result = p.create(ctx, trade, request)
	}
	if result.Code == codeHasSuccess || result.Code == codeAuthCodeInvalid {
		return p.lookedUp(ctx, request, result)
	}
	return result
}

// lookedUp finds out about a trade that the refusal says is paid, or whose
// buyer's code may have been used up by an earlier try for the same order. The
// number is the order's, so whatever is there is the order's.
func (p *Provider) lookedUp(ctx context.Context, request psp.ChargeRequest, refusal psp.Result) psp.Result {
	told := p.Query(ctx, psp.Trade{OrderID: request.OrderID, Money: request.Money})
	if told.Verdict == psp.NotFound {
		return refusal
	}
	return told
}

func (p *Provider) notifyURL(requested string) string {
	if requested != "" {
		return requested
	}
	return p.config.NotifyURL
}

// subjectOf falls back to the order id: Alipay wants a subject.
func subjectOf(request psp.ChargeRequest) string {
	if request.Subject == "" {
		return request.OrderID
	}
	return request.Subject
}

func (p *Provider) create(ctx context.Context, trade sdk.Trade, request psp.ChargeRequest) psp.Result {
	answer, err := p.client.TradeCreate(ctx, sdk.TradeCreate{
		Trade: trade, BuyerId: request.Fields["buyer_id"], BuyerOpenId: request.Fields["buyer_open_id"],
		OpAppId: request.Fields["op_app_id"], OperatorId: request.Fields["operator_id"],
		TerminalId: request.Fields["terminal_id"],
	})
	if result, failed := failure(charging, err, answer, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	return psp.Result{Verdict: psp.Pending, TradeNo: answer.TradeNo, Code: string(answer.Code)}
}

func (p *Provider) pay(ctx context.Context, trade sdk.Trade, request psp.ChargeRequest) psp.Result {
	answer, err := p.client.TradePay(ctx, sdk.TradePay{
		Trade: trade, Scene: "bar_code", AuthCode: request.Fields["auth_code"], BuyerId: request.Fields["buyer_id"],
		OperatorId: request.Fields["operator_id"], TerminalId: request.Fields["terminal_id"],
	})
	if result, failed := failure(charging, err, answer, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	result := psp.Result{Verdict: psp.Pending, TradeNo: answer.TradeNo, Code: string(answer.Code)}
	if answer.Code == sdk.CodeSuccess {
		return paid(result, answer.TotalAmount)
	}
	return result
}

func (p *Provider) precreate(ctx context.Context, trade sdk.Trade, request psp.ChargeRequest) psp.Result {
	answer, err := p.client.TradePreCreate(ctx, sdk.TradePreCreate{
		Trade: trade, OperatorId: request.Fields["operator_id"], TerminalId: request.Fields["terminal_id"],
	})
	if result, failed := failure(charging, err, answer, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	return psp.Result{
		Verdict: psp.Pending, Code: string(answer.Code), Next: map[string]string{"code_url": answer.QRCode},
	}
}

// Query implements psp.Provider. A query that failed leaves the trade in
// doubt, whatever the reason.
func (p *Provider) Query(ctx context.Context, trade psp.Trade) psp.Result {
	answer, err := p.client.TradeQuery(ctx, sdk.TradeQuery{OutTradeNo: trade.OrderID})
	if result, failed := failure(asking, err, answer, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	result := psp.Result{TradeNo: answer.TradeNo, Code: string(answer.TradeStatus)}
	switch answer.TradeStatus {
	case sdk.TradeStatusWaitBuyerPay:
		result.Verdict = psp.Pending
	case sdk.TradeStatusSuccess, sdk.TradeStatusFinished:
		return paid(result, answer.TotalAmount)
	case sdk.TradeStatusClosed:
		return closed(result, answer)
	}
	return result
}

// closed tells the two kinds of a closed trade apart by the day on which the
// seller got the money: one was never paid; the other was, and all of it was
// given back since, which is a refund's story to tell and not the charge's
// (docs.open.alipay.com/api_1/alipay.trade.query).
func closed(result psp.Result, answer *sdk.TradeQueryRsp) psp.Result {
	if answer.SendPayDate == "" {
		result.Verdict, result.Message = psp.Terminal, "the trade was closed unpaid"
		return result
	}
	result.Message = "the trade was paid, and refunded in full since"
	return paid(result, answer.TotalAmount)
}

// paid reads the amount of a trade that was paid. One that cannot be read
// leaves the charge in doubt.
func paid(result psp.Result, yuan string) psp.Result {
	amount, err := money.ParseDecimal(yuan, "CNY")
	if err != nil {
		result.Verdict, result.Err = psp.InDoubt, err
		return result
	}
	result.Verdict, result.Paid = psp.Succeeded, amount
	return result
}
