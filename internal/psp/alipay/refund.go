package alipay

import (
	"context"
	"fmt"

	sdk "github.com/smartwalle/alipay/v3"

	"github.com/payonce/payonce/internal/psp"
)

// Refund implements psp.Provider. Paid of the Result is what was given back.
//
// Alipay wants 3 seconds between two refunds of one trade, and makes one
// refund of one out_request_no however often it is sent
// (docs.open.alipay.com/api_1/alipay.trade.refund).
func (p *Provider) Refund(ctx context.Context, request psp.RefundRequest) psp.Result {
	yuan, err := request.Money.Decimal()
	if err != nil {
		return psp.Result{Verdict: psp.Transient, Err: err}
	}
	answer, err := p.client.TradeRefund(ctx, sdk.TradeRefund{
		OutTradeNo: request.Trade.OrderID, OutRequestNo: request.RefundID, RefundAmount: yuan, RefundReason: request.Reason,
	})
	if result, failed := failure(refunding, err, answer, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	if answer.FundChange == "Y" {
		return psp.Result{Verdict: psp.Succeeded, TradeNo: answer.TradeNo, Code: string(answer.Code), Paid: request.Money}
	}
	// No money moved by this very call: this out_request_no was refunded
	// before, or the refund is still on its way. The query tells which.
	told := p.QueryRefund(ctx, request)
	if told.Verdict == psp.NotFound {
		told.Verdict, told.Message = psp.InDoubt, "Alipay took the refund and has not made it yet"
	}
	return told
}

const refundSuccess = "REFUND_SUCCESS"

// QueryRefund implements psp.Provider. Alipay leaves refund_status out for a
// refund that it has not received or that failed, and may do so in the first
// ten seconds of one that it has received: NotFound says that the refund may
// be sent again with the same number and amount, and nothing more
// (docs.open.alipay.com/api_1/alipay.trade.fastpay.refund.query).
func (p *Provider) QueryRefund(ctx context.Context, request psp.RefundRequest) psp.Result {
	answer, err := p.client.TradeFastPayRefundQuery(ctx, sdk.TradeFastPayRefundQuery{
		OutTradeNo: request.Trade.OrderID, OutRequestNo: request.RefundID,
	})
	if result, failed := failure(asking, err, answer, func() sdk.Error { return answer.Error }); failed {
		return result
	}
	switch answer.RefundStatus {
	case refundSuccess:
	case "":
		return psp.Result{Verdict: psp.NotFound, Code: string(answer.Code)}
	default:
		return psp.Result{Code: answer.RefundStatus}
	}
	result := paid(psp.Result{TradeNo: answer.TradeNo, Code: answer.RefundStatus}, answer.RefundAmount)
	if result.Verdict == psp.Succeeded && result.Paid != request.Money {
		result.Verdict = psp.InDoubt
		result.Err = fmt.Errorf("alipay: refund %s is over %d fen, not %d", request.RefundID, result.Paid.Amount, request.Money.Amount)
	}
	return result
}
