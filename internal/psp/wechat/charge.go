package wechat

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/wechatpay-apiv3/wechatpay-go/core"
	"github.com/wechatpay-apiv3/wechatpay-go/services/payments"
	"github.com/wechatpay-apiv3/wechatpay-go/services/payments/native"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
)

const currency = "CNY"

// maxDescription is the length of a description. Page 4012791877 counts 127
// characters, earlier editions do not say of what: 127 bytes satisfy both.
const maxDescription = 127

var (
	// outTradeNo is the rule of page 4012791877.
	outTradeNo = regexp.MustCompile(`^[0-9A-Za-z_\-|*]{6,32}$`)
	// knownFields are the request fields of our API that WeChat Pay is handed,
	// each with its greatest length in bytes (pages 4012791856, 4012791834).
	knownFields = map[string]int{
		fieldOpenID: 128, fieldClientIP: 45, fieldH5Type: 32, fieldTimeExpire: 64,
		"attach": 128, "goods_tag": 32, "device_id": 32,
	}
	// h5Types are the scenes of an H5 payment (page 4012791834).
	h5Types = map[string]bool{"iOS": true, "Android": true, "Wap": true}
)

// Fields that have rules of their own.
const (
	fieldOpenID     = "openid"
	fieldClientIP   = "payer_client_ip"
	fieldH5Type     = "h5_type"
	fieldTimeExpire = "time_expire"
)

// The ways of paying: a code that the buyer scans, a page or mini program
// inside WeChat, an app, a browser on a phone.
const (
	methodNative = "native"
	methodJSAPI  = "jsapi"
	methodApp    = "app"
	methodH5     = "h5"
)

func methodOf(request psp.ChargeRequest) string {
	if request.Method == "" {
		return methodNative
	}
	return request.Method
}

// subjectOf falls back to the order id: WeChat Pay wants a description.
func subjectOf(request psp.ChargeRequest) string {
	if request.Subject == "" {
		return request.OrderID
	}
	return request.Subject
}

// Validate implements psp.Provider.
func (p *Provider) Validate(request psp.ChargeRequest) error {
	switch {
	case request.Money.Currency != currency:
		return &psp.FieldError{Field: "currency", Problem: "must be CNY for wechat"}
	case request.Money.Amount < 1:
		return &psp.FieldError{Field: "amount", Problem: "must be above 0 for wechat"}
	case !outTradeNo.MatchString(request.OrderID):
		return &psp.FieldError{Field: "order_id", Problem: "must have 6 to 32 letters, digits, _ - | or * for wechat"}
	case len(request.Subject) > maxDescription:
		return &psp.FieldError{Field: "subject", Problem: "must have at most 127 bytes in UTF-8 for wechat"}
	case request.NotifyURL != "" && !isNotifyURL(request.NotifyURL):
		return &psp.FieldError{Field: "notify_url", Problem: "must be an address without a query for wechat"}
	}
	for name, value := range request.Fields {
		limit, known := knownFields[name]
		if !known {
			return &psp.FieldError{Field: name, Problem: "is not a field that wechat takes"}
		}
		if len(value) > limit {
			return &psp.FieldError{Field: name, Problem: "is longer than wechat takes"}
		}
	}
	return validateMethod(request)
}

func validateMethod(request psp.ChargeRequest) error {
	fields, method := request.Fields, methodOf(request)
	if _, err := expiry(request); err != nil {
		return &psp.FieldError{Field: fieldTimeExpire, Problem: "must be a time such as 2026-01-02T15:04:05+08:00"}
	}
	switch method {
	case methodNative, methodApp:
	case methodJSAPI:
		if fields[fieldOpenID] == "" {
			return &psp.FieldError{Field: fieldOpenID, Problem: "is missing: method jsapi needs the buyer's openid"}
		}
	case methodH5:
		if fields[fieldClientIP] == "" {
			return &psp.FieldError{Field: fieldClientIP, Problem: "is missing: method h5 needs the buyer's address"}
		}
		if !h5Types[fields[fieldH5Type]] {
			return &psp.FieldError{Field: fieldH5Type, Problem: "must be iOS, Android or Wap for method h5"}
		}
	default:
		return &psp.FieldError{Field: "method", Problem: "must be native, jsapi, app or h5 for wechat"}
	}
	if method != methodJSAPI && fields[fieldOpenID] != "" {
		return &psp.FieldError{Field: fieldOpenID, Problem: "is only for method jsapi"}
	}
	if method != methodH5 && fields[fieldH5Type] != "" {
		return &psp.FieldError{Field: fieldH5Type, Problem: "is only for method h5"}
	}
	return nil
}

// expiry is when the order stops to be payable, or nil.
func expiry(request psp.ChargeRequest) (*time.Time, error) {
	text := request.Fields[fieldTimeExpire]
	if text == "" {
		return nil, nil //nolint:nilnil // no time is a time that was not asked for
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, fmt.Errorf("wechat: time_expire: %w", err)
	}
	return &at, nil
}

// Charge implements psp.Provider. It opens an order, which the buyer then
// pays, so that Succeeded is only for an order that turns out to be paid
// already: Paid is then what WeChat Pay says was paid, which the caller
// compares with the order.
//
// The same parameters open the same order again, and hand out what the buyer
// needs anew (page 4012791877).
func (p *Provider) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	if err := p.Validate(request); err != nil {
		return psp.Result{Verdict: psp.Terminal, Code: "invalid_request", Message: err.Error()}
	}
	next, answer, err := p.prepay(ctx, request)
	if err == nil {
		return psp.Result{Verdict: psp.Pending, Next: next}
	}
	result := p.failure(ctx, charging, answer, err)
	switch result.Code {
	case codeOrderPaid:
		return p.paidAlready(ctx, request, result)
	case codeNumberUsed, codeInvalidRequest:
		return p.paidOrRefused(ctx, request, result)
	}
	return result
}

// paidAlready finds out about an order that the refusal says is paid. The
// number is the order's, so whatever is there is the order's.
func (p *Provider) paidAlready(ctx context.Context, request psp.ChargeRequest, refusal psp.Result) psp.Result {
	told := p.Query(ctx, tradeOf(request))
	if told.Verdict == psp.NotFound {
		return refusal
	}
	return told
}

// paidOrRefused finds out whether an order whose number was used before is
// paid: then it is the success that it is. If it is not, or over another
// amount, the refusal stands.
func (p *Provider) paidOrRefused(ctx context.Context, request psp.ChargeRequest, refusal psp.Result) psp.Result {
	if refusal.Verdict != psp.Terminal {
		return refusal
	}
	told := p.Query(ctx, tradeOf(request))
	if told.Verdict == psp.InDoubt || (told.Verdict == psp.Succeeded && told.Paid == request.Money) {
		return told
	}
	return refusal
}

func tradeOf(request psp.ChargeRequest) psp.Trade {
	return psp.Trade{OrderID: request.OrderID, Attempt: request.Attempt, Money: request.Money}
}

// Query implements psp.Provider. A query that failed leaves the charge in
// doubt, whatever the reason. An order is found by its out_trade_no, since it
// has no other number until it is paid (page 4013070356).
func (p *Provider) Query(ctx context.Context, trade psp.Trade) psp.Result {
	service := native.NativeApiService{Client: p.client}
	told, answer, err := service.QueryOrderByOutTradeNo(ctx, native.QueryOrderByOutTradeNoRequest{
		OutTradeNo: core.String(trade.OrderID), Mchid: core.String(p.config.MchID),
	})
	switch {
	case err != nil:
		return p.failure(ctx, askingOrder, answer, err)
	case text(told.OutTradeNo) != trade.OrderID || text(told.Mchid) != p.config.MchID:
		return psp.Result{Err: errors.New("wechat: the answer is about another order")}
	}
	state := text(told.TradeState)
	result := psp.Result{
		Verdict: tradeStates[state], TradeNo: text(told.TransactionId), Code: state, Message: text(told.TradeStateDesc),
	}
	if result.Verdict == psp.Succeeded {
		return paid(result, told.Amount)
	}
	return result
}

// paid reads the amount of an order that was paid: the order's, of which the
// buyer may have paid a part with a coupon. One that cannot be read leaves the
// charge in doubt.
func paid(result psp.Result, amount *payments.TransactionAmount) psp.Result {
	if amount == nil || amount.Total == nil || *amount.Total < 1 || text(amount.Currency) != currency {
		result.Verdict, result.Err = psp.InDoubt, errors.New("wechat: the answer tells no amount in CNY")
		return result
	}
	result.Paid = money.Money{Amount: *amount.Total, Currency: currency}
	return result
}

// Close ends an unpaid order, so that the buyer cannot pay it any more:
// Terminal then. An order that is paid is the success that it is (page
// 4012791860).
func (p *Provider) Close(ctx context.Context, trade psp.Trade) psp.Result {
	service := native.NativeApiService{Client: p.client}
	answer, err := service.CloseOrder(ctx, native.CloseOrderRequest{
		OutTradeNo: core.String(trade.OrderID), Mchid: core.String(p.config.MchID),
	})
	if err == nil {
		return psp.Result{Verdict: psp.Terminal, Message: "the order was closed unpaid"}
	}
	result := p.failure(ctx, askingOrder, answer, err)
	if result.Code == codeOrderPaid {
		return p.Query(ctx, trade)
	}
	return result
}

// text is what an optional field of the SDK's holds.
func text(field *string) string {
	if field == nil {
		return ""
	}
	return *field
}
