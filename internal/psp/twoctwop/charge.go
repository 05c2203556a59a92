package twoctwop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/payonce/payonce/internal/psp"
)

// What a payment token takes (api-payment-token-request-parameter).
const (
	maxDescription   = 250
	maxWholeDigits   = 12
	maxReturnAddress = 2048
	maxLocale        = 10
)

var (
	// invoiceNo is AN 50: letters and digits.
	invoiceNo = regexp.MustCompile(`^[A-Za-z0-9]{1,50}$`)
	// channel is AN 1-6.
	channel = regexp.MustCompile(`^[A-Za-z0-9]{1,6}$`)
	// knownFields are the request fields of our API that 2C2P is handed, each
	// with its greatest length in characters.
	knownFields = map[string]int{"frontendReturnUrl": maxReturnAddress, "locale": maxLocale}
)

// Validate implements psp.Provider. The method is one of 2C2P's payment
// channels, such as CC; empty means all that the merchant has.
func (p *Provider) Validate(request psp.ChargeRequest) error {
	amount, err := request.Money.Decimal()
	whole, _, _ := strings.Cut(amount, ".")
	switch {
	case err != nil:
		return &psp.FieldError{Field: "currency", Problem: "must be an ISO 4217 code for 2c2p"}
	case request.Money.Amount < 1 || len(whole) > maxWholeDigits:
		return &psp.FieldError{Field: "amount", Problem: "must be above 0 and have at most 12 digits before the point for 2c2p"}
	case !invoiceNo.MatchString(request.OrderID):
		return &psp.FieldError{Field: "order_id", Problem: "must have 1 to 50 letters or digits for 2c2p"}
	case utf8.RuneCountInString(description(request)) > maxDescription:
		return &psp.FieldError{Field: "subject", Problem: "must have at most 250 characters, escaped as HTML, for 2c2p"}
	case request.Method != "" && !channel.MatchString(request.Method):
		return &psp.FieldError{Field: "method", Problem: "must be a payment channel of 1 to 6 letters or digits for 2c2p"}
	}
	for name, value := range request.Fields {
		limit, known := knownFields[name]
		if !known {
			return &psp.FieldError{Field: name, Problem: "is not a field that 2c2p takes"}
		}
		if utf8.RuneCountInString(value) > limit {
			return &psp.FieldError{Field: name, Problem: "is longer than 2c2p takes"}
		}
	}
	return nil
}

// description falls back to the order id, since 2C2P wants one, and is escaped
// as the page asks.
func description(request psp.ChargeRequest) string {
	if request.Subject == "" {
		return request.OrderID
	}
	return html.EscapeString(request.Subject)
}

// Charge implements psp.Provider: it asks for the page that the buyer pays on.
// Verdict Succeeded is only for an order that turns out to be paid already:
// Paid is then what 2C2P says was paid, which the caller compares.
func (p *Provider) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	if err := p.Validate(request); err != nil {
		// 2C2P would refuse it again and again; it is not even sent.
		return psp.Result{Verdict: psp.Terminal, Message: err.Error(), Err: err}
	}
	amount, err := request.Money.Decimal()
	if err != nil {
		return psp.Result{Verdict: psp.Transient, Err: err}
	}
	told, err := p.call(ctx, p.tokenURL, p.tokenRequest(request, amount))
	if err != nil {
		return failed(charging, err)
	}
	if told.RespCode == codeExistingInvoice || told.RespCode == codeDuplicatedInvoice {
		return p.lookedUp(ctx, request, told)
	}
	if told.RespCode != codeSuccess {
		return classified(charging, told.RespCode, told.RespDesc)
	}
	if told.WebPaymentURL == "" {
		return psp.Result{Code: told.RespCode, Err: errors.New("2c2p: the answer names no payment page")}
	}
	return psp.Result{
		Verdict: psp.Pending, Code: told.RespCode,
		Next: map[string]string{"payment_url": told.WebPaymentURL, "payment_token": told.PaymentToken},
	}
}

// tokenRequest has an idempotencyID, by which 2C2P recognises a retry. A new
// attempt follows only on a refusal, which must not be what it gets again.
func (p *Provider) tokenRequest(request psp.ChargeRequest, amount string) jwt.MapClaims {
	claims := jwt.MapClaims{
		"merchantID": p.merchantID, "invoiceNo": request.OrderID, "description": description(request),
		"amount": json.Number(amount), "currencyCode": request.Money.Currency,
		"idempotencyID": fmt.Sprintf("%s-%d", request.OrderID, request.Attempt),
	}
	for name, value := range map[string]string{
		"backendReturnUrl":  p.notifyAddress(request.NotifyURL),
		"frontendReturnUrl": request.Fields["frontendReturnUrl"], "locale": request.Fields["locale"],
	} {
		if value != "" {
			claims[name] = value
		}
	}
	if request.Method != "" {
		claims["paymentChannel"] = []string{request.Method}
	}
	return claims
}

func (p *Provider) notifyAddress(requested string) string {
	if requested != "" {
		return requested
	}
	return p.notifyURL
}

// lookedUp finds out about an invoice that the refusal says is there already.
// The number is the order's: paid, it is the success that it is. Where 2C2P has
// no payment of it, the number was taken with other terms, and no retry will
// change that.
func (p *Provider) lookedUp(ctx context.Context, request psp.ChargeRequest, refusal message) psp.Result {
	told := p.Query(ctx, psp.Trade{OrderID: request.OrderID, Attempt: request.Attempt, Money: request.Money})
	if told.Verdict == psp.NotFound {
		return psp.Result{Verdict: psp.Terminal, Code: refusal.RespCode, Message: refusal.RespDesc}
	}
	return told
}

// Query implements psp.Provider. A query that failed leaves the trade in
// doubt, whatever the reason.
func (p *Provider) Query(ctx context.Context, trade psp.Trade) psp.Result {
	told, err := p.call(ctx, p.inquiryURL, jwt.MapClaims{
		"merchantID": p.merchantID, "invoiceNo": trade.OrderID, "locale": "en",
	})
	if err != nil {
		return failed(asking, err)
	}
	result := classified(asking, told.RespCode, told.RespDesc)
	switch {
	case result.Verdict == psp.InDoubt:
		return result
	case result.Verdict == psp.NotFound && told.MerchantID == "" && told.InvoiceNo == "":
		return result
	case told.MerchantID != p.merchantID || told.InvoiceNo != trade.OrderID:
		return psp.Result{Code: told.RespCode, Err: errors.New("2c2p: the answer is about another invoice")}
	}
	result.TradeNo = told.reference()
	if result.Verdict == psp.Succeeded {
		return paid(result, told)
	}
	return result
}

// paid reads the amount of a payment that was made. One that cannot be read
// leaves the charge in doubt.
func paid(result psp.Result, told message) psp.Result {
	amount, err := told.money()
	if err == nil && amount.Amount < 1 {
		err = errors.New("2c2p: a payment over nothing")
	}
	if err != nil {
		result.Verdict, result.Err = psp.InDoubt, err
		return result
	}
	result.Paid = amount
	return result
}
