// Package alipay charges through Alipay's open platform gateway (RSA2).
//
// The order id is the out_trade_no and the refund id the out_request_no, so
// that Alipay itself refuses to move the same money twice.
package alipay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"unicode/utf8"

	sdk "github.com/smartwalle/alipay/v3"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
)

// Name is the provider's name in the API.
const Name = "alipay"

// Config is one application at Alipay's open platform.
type Config struct {
	AppID string
	// PrivateKey is the application's RSA key, PEM or bare base64.
	PrivateKey string
	// AlipayPublicKey is Alipay's key, which its answers are verified with.
	AlipayPublicKey string
	// GatewayURL is empty for production, or a sandbox's address.
	GatewayURL string
	// SellerID, where set, must be the seller of each notification.
	SellerID string
	// NotifyURL is where Alipay sends its notifications.
	NotifyURL string
	// Client is http.DefaultClient when nil.
	Client *http.Client
}

// LogValue keeps the private key out of logs.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(slog.String("app_id", c.AppID), slog.String("gateway", c.GatewayURL))
}

// String keeps the private key out of whatever prints a Config.
func (c Config) String() string { return fmt.Sprintf("alipay app %s at %q", c.AppID, c.GatewayURL) }

// GoString is String.
func (c Config) GoString() string { return c.String() }

// Provider is Alipay.
type Provider struct {
	client *sdk.Client
	config Config
}

var _ psp.Provider = (*Provider)(nil)

// New makes the provider, or says what its configuration lacks.
func New(config Config) (*Provider, error) {
	for _, setting := range []struct{ name, value string }{
		{"app id", config.AppID}, {"private key", config.PrivateKey}, {"Alipay public key", config.AlipayPublicKey},
	} {
		if setting.value == "" {
			return nil, fmt.Errorf("alipay: the %s is missing", setting.name)
		}
	}
	options := []sdk.OptionFunc{sdk.WithHTTPClient(config.Client)}
	if config.GatewayURL != "" {
		options = append(options, sdk.WithProductionGateway(config.GatewayURL))
	}
	client, err := sdk.New(config.AppID, config.PrivateKey, true, options...)
	if err != nil {
		return nil, errors.New("alipay: the private key is not an RSA key in PKCS#1 or PKCS#8")
	}
	if err := client.LoadAliPayPublicKey(config.AlipayPublicKey); err != nil {
		return nil, errors.New("alipay: the Alipay public key is not an RSA key in PKIX form")
	}
	return &Provider{client: client, config: config}, nil
}

// Name implements psp.Provider.
func (p *Provider) Name() string { return Name }

// What alipay.trade.create takes (opendocs.alipay.com/open/8cc6ff60_alipay.trade.create):
// an out_trade_no of up to 64 letters, digits and underscores, a subject of up
// to 256 characters without / = &, 0.01 to 100000000 yuan.
const (
	maxSubject = 256
	maxAmount  = 100_000_000_00
)

var (
	outTradeNo = regexp.MustCompile(`^[A-Za-z0-9_\-]{1,64}$`)
	badSubject = regexp.MustCompile(`[/=&]`)
	// knownFields are the request fields of our API that Alipay is handed.
	knownFields = map[string]bool{"auth_code": true, "buyer_id": true, "buyer_open_id": true}
)

// The ways of paying: an order that the buyer pays in Alipay, a code that the
// buyer shows, a code that the buyer scans.
const (
	methodCreate    = "create"
	methodPay       = "pay"
	methodPrecreate = "precreate"
)

func methodOf(request psp.ChargeRequest) string {
	switch {
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
	for name := range request.Fields {
		if !knownFields[name] {
			return &psp.FieldError{Field: name, Problem: "is not a field that alipay takes"}
		}
	}
	switch methodOf(request) {
	case methodCreate, methodPrecreate:
	case methodPay:
		if request.Fields["auth_code"] == "" {
			return &psp.FieldError{Field: "auth_code", Problem: "is missing: method pay needs the buyer's code"}
		}
	default:
		return &psp.FieldError{Field: "method", Problem: "must be create, pay or precreate for alipay"}
	}
	return nil
}

// Charge implements psp.Provider.
func (p *Provider) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	yuan, err := request.Money.Decimal()
	if err != nil {
		return psp.Result{Verdict: psp.Transient, Err: err}
	}
	trade := sdk.Trade{
		OutTradeNo: request.OrderID, TotalAmount: yuan, Subject: subjectOf(request),
		NotifyURL: p.config.NotifyURL, SellerId: p.config.SellerID,
	}
	var result psp.Result
	switch methodOf(request) {
	case methodPay:
		result = p.pay(ctx, trade, request)
	case methodPrecreate:
		result = p.precreate(ctx, trade)
	default:
		result = p.create(ctx, trade, request)
	}
	if result.Code == codeHasSuccess {
		// Paid already: by this order, since the number is the order's. The
		// query tells the amount, which the caller compares.
		return p.Query(ctx, psp.Trade{OrderID: request.OrderID, Money: request.Money})
	}
	return result
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
	})
	if result, failed := failure(err, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	return psp.Result{Verdict: psp.Pending, TradeNo: answer.TradeNo, Code: string(answer.Code)}
}

func (p *Provider) pay(ctx context.Context, trade sdk.Trade, request psp.ChargeRequest) psp.Result {
	answer, err := p.client.TradePay(ctx, sdk.TradePay{
		Trade: trade, Scene: "bar_code", AuthCode: request.Fields["auth_code"], BuyerId: request.Fields["buyer_id"],
	})
	if result, failed := failure(err, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	result := psp.Result{Verdict: psp.Pending, TradeNo: answer.TradeNo, Code: string(answer.Code)}
	if answer.Code == sdk.CodeSuccess {
		return paid(result, answer.TotalAmount)
	}
	return result
}

func (p *Provider) precreate(ctx context.Context, trade sdk.Trade) psp.Result {
	answer, err := p.client.TradePreCreate(ctx, sdk.TradePreCreate{Trade: trade})
	if result, failed := failure(err, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	return psp.Result{
		Verdict: psp.Pending, Code: string(answer.Code), Next: map[string]string{"code_url": answer.QRCode},
	}
}

// Query implements psp.Provider.
func (p *Provider) Query(ctx context.Context, trade psp.Trade) psp.Result {
	answer, err := p.client.TradeQuery(ctx, sdk.TradeQuery{OutTradeNo: trade.OrderID})
	if result, failed := failure(err, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	result := psp.Result{TradeNo: answer.TradeNo, Code: string(answer.TradeStatus)}
	switch answer.TradeStatus {
	case sdk.TradeStatusWaitBuyerPay:
		result.Verdict = psp.Pending
	case sdk.TradeStatusSuccess, sdk.TradeStatusFinished:
		return paid(result, answer.TotalAmount)
	case sdk.TradeStatusClosed:
		// Not paid in time, or paid and given back in full: in both cases
		// there is nothing that this order could still be charged with.
		result.Verdict = psp.Terminal
		result.Message = "the trade is closed at Alipay: it was not paid in time, or refunded in full"
	}
	return result
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

// Refund implements psp.Provider.
func (p *Provider) Refund(ctx context.Context, request psp.RefundRequest) psp.Result {
	yuan, err := request.Money.Decimal()
	if err != nil {
		return psp.Result{Verdict: psp.Transient, Err: err}
	}
	answer, err := p.client.TradeRefund(ctx, sdk.TradeRefund{
		OutTradeNo: request.Trade.OrderID, OutRequestNo: request.RefundID, RefundAmount: yuan, RefundReason: request.Reason,
	})
	if result, failed := failure(err, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	if answer.FundChange == "Y" {
		return psp.Result{Verdict: psp.Succeeded, TradeNo: answer.TradeNo, Code: string(answer.Code), Paid: request.Money}
	}
	// No money moved by this very call: the same out_request_no was refunded
	// before, or the refund is still on its way. The query tells which.
	return p.QueryRefund(ctx, request)
}

// QueryRefund implements psp.Provider. Alipay leaves refund_status out when it
// has not received the refund or the refund failed; a repeated refund with the
// same out_request_no is then safe.
func (p *Provider) QueryRefund(ctx context.Context, request psp.RefundRequest) psp.Result {
	answer, err := p.client.TradeFastPayRefundQuery(ctx, sdk.TradeFastPayRefundQuery{
		OutTradeNo: request.Trade.OrderID, OutRequestNo: request.RefundID,
	})
	if result, failed := failure(err, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	if answer.RefundStatus != "REFUND_SUCCESS" {
		return psp.Result{Verdict: psp.NotFound, Code: string(answer.Code)}
	}
	return paid(psp.Result{TradeNo: answer.TradeNo, Code: answer.RefundStatus}, answer.RefundAmount)
}

// failure judges an answer that is not a success. The request may have reached
// Alipay unless no connection could be made at all.
func failure(err error, answered func() sdk.Error) (psp.Result, bool) {
	var problem *sdk.Error
	switch {
	case errors.As(err, &problem):
		return classified(*problem), true
	case neverSent(err):
		return psp.Result{Verdict: psp.Transient, Err: err, Message: "Alipay could not be reached"}, true
	case err != nil:
		return psp.Result{Verdict: psp.InDoubt, Err: err}, true
	}
	if problem := answered(); problem.IsFailure() {
		return classified(problem), true
	}
	return psp.Result{}, false
}

// neverSent tells that no connection was made: not one byte was sent.
func neverSent(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Op == "dial"
}
