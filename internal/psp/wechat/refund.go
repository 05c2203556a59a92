package wechat

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/wechatpay-apiv3/wechatpay-go/core"
	"github.com/wechatpay-apiv3/wechatpay-go/services/refunddomestic"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
)

// outRefundNo is the rule of page 4013071036.
var outRefundNo = regexp.MustCompile(`^[0-9A-Za-z_\-|*@]{1,64}$`)

// maxReason is the length of a refund's reason in bytes, so that it is within
// the 80 of page 4013071036 however they are counted.
const maxReason = 80

// Refund implements psp.Provider. Pending means that WeChat Pay took the
// refund; what comes of it is told by the notification and the query.
//
// An out_refund_no is refunded once, however often it is sent. Two refunds of
// one order want a minute between them (page 4012552567).
func (p *Provider) Refund(ctx context.Context, request psp.RefundRequest) psp.Result {
	if !outRefundNo.MatchString(request.RefundID) {
		return psp.Result{
			Verdict: psp.Terminal, Code: "invalid_request",
			Message: "the refund id must have 1 to 64 letters, digits, _ - | * or @ for wechat",
		}
	}
	service := refunddomestic.RefundsApiService{Client: p.client}
	told, answer, err := service.Create(ctx, refunddomestic.CreateRequest{
		OutTradeNo: &request.Trade.OrderID, OutRefundNo: &request.RefundID, Reason: reasonOf(request),
		NotifyUrl: core.String(p.notifyURL(request.NotifyURL)),
		Amount: &refunddomestic.AmountReq{
			Refund: &request.Money.Amount, Total: &request.Trade.Money.Amount, Currency: &request.Money.Currency,
		},
	})
	if err != nil {
		return p.failure(ctx, refunding, answer, err)
	}
	return refundResult(request, told)
}

// reasonOf is the reason, cut to what WeChat Pay takes between two characters;
// it is a courtesy to the buyer and no ground to fail a refund.
func reasonOf(request psp.RefundRequest) *string {
	if request.Reason == "" {
		return nil
	}
	end := 0
	for i, r := range request.Reason {
		next := i + len(string(r))
		if next > maxReason {
			break
		}
		end = next
	}
	return core.String(request.Reason[:end])
}

// QueryRefund implements psp.Provider (page 4013071041).
func (p *Provider) QueryRefund(ctx context.Context, request psp.RefundRequest) psp.Result {
	service := refunddomestic.RefundsApiService{Client: p.client}
	told, answer, err := service.QueryByOutRefundNo(ctx, refunddomestic.QueryByOutRefundNoRequest{
		OutRefundNo: &request.RefundID,
	})
	if err != nil {
		return p.failure(ctx, askingRefund, answer, err)
	}
	return refundResult(request, told)
}

// refundResult judges a refund as WeChat Pay has it. One over another amount,
// or of another order, leaves ours in doubt.
func refundResult(request psp.RefundRequest, told *refunddomestic.Refund) psp.Result {
	if told.Status == nil || told.Amount == nil || told.Amount.Refund == nil ||
		text(told.OutRefundNo) != request.RefundID || text(told.OutTradeNo) != request.Trade.OrderID {
		return psp.Result{Err: errors.New("wechat: the answer is about another refund, or tells no state or amount")}
	}
	result := psp.Result{
		Verdict: refundStates[string(*told.Status)], TradeNo: text(told.RefundId), Code: string(*told.Status),
	}
	if *told.Amount.Refund != request.Money.Amount || text(told.Amount.Currency) != currency {
		result.Verdict = psp.InDoubt
		result.Err = fmt.Errorf("wechat: refund %s is over %d %s, not %d fen",
			request.RefundID, *told.Amount.Refund, text(told.Amount.Currency), request.Money.Amount)
		return result
	}
	if result.Verdict == psp.Succeeded {
		result.Paid = money.Money{Amount: *told.Amount.Refund, Currency: currency}
	}
	return result
}
