package twoctwop

import (
	"context"
	"errors"

	"github.com/payonce/payonce/internal/psp"
)

// What a refund's number may be: idempotencyID is C 100
// (api-payment-token-request-parameter).
const maxRefundID = 100

// Refund implements psp.Provider. Paid of the Result is what was given back.
//
// A payment is refunded once it is settled, and before that only voided, as a
// whole (payment-maintenance-how-it-works): a refund of everything that 2C2P
// does not take yet becomes a void.
func (p *Provider) Refund(ctx context.Context, request psp.RefundRequest) psp.Result {
	if len(request.RefundID) > maxRefundID {
		return psp.Result{Verdict: psp.Terminal, Message: "the refund id is longer than the 100 characters that 2c2p takes"}
	}
	asked, err := actionOf(processRefund, request)
	if err != nil {
		return psp.Result{Verdict: psp.Transient, Err: err}
	}
	asked.IdempotencyID, asked.UserDefined1 = request.RefundID, request.RefundID
	result := p.moved(ctx, asked, request)
	early := result.Code == resultStatusInvalid || result.Code == resultRefundForbidden
	if !early || request.Money != request.Trade.Money {
		return result
	}
	asked.ProcessType, asked.IdempotencyID, asked.UserDefined1 = processVoid, "", ""
	return p.moved(ctx, asked, request)
}

func actionOf(kind string, request psp.RefundRequest) (action, error) {
	amount, err := request.Money.Decimal()
	return action{InvoiceNo: request.Trade.OrderID, ActionAmount: amount, ProcessType: kind}, err
}

// moved asks for a refund or a void, and judges the answer by its code and, on
// success, by the status that it leads to.
func (p *Provider) moved(ctx context.Context, asked action, request psp.RefundRequest) psp.Result {
	told, err := p.maintain(ctx, asked)
	if err != nil {
		return failed(refunding, err)
	}
	result := classified(refunding, told.RespCode, told.RespDesc)
	if result.Verdict != psp.Succeeded {
		return result
	}
	return ended(result, told.Status, told.RefundReferenceNo, request)
}

// ended judges a refund by its status. An unknown one is in doubt.
func ended(result psp.Result, status, reference string, request psp.RefundRequest) psp.Result {
	result.Verdict, result.Code, result.TradeNo = statuses[status], status, reference
	if result.Verdict == psp.Succeeded {
		result.Paid = request.Money
	}
	return result
}

// QueryRefund implements psp.Provider. 2C2P lists the refunds of an invoice,
// each with the userDefined1 that it was asked with. NotFound says that none of
// them can be this one; a refund of the same amount that nobody's number is on
// might be, and leaves it in doubt.
func (p *Provider) QueryRefund(ctx context.Context, request psp.RefundRequest) psp.Result {
	asked, err := actionOf(processRefundStatus, request)
	if err != nil {
		return psp.Result{Err: err}
	}
	told, err := p.maintain(ctx, asked)
	if err != nil {
		return failed(askingRefund, err)
	}
	result := classified(askingRefund, told.RespCode, told.RespDesc)
	if told.RespCode != resultSuccess {
		return result
	}
	for _, made := range told.RefundList.Records {
		if made.UserDefined1 == request.RefundID {
			return recorded(result, made, request)
		}
	}
	if voided := told.Status == "V" || told.Status == "VP"; voided && request.Money == request.Trade.Money {
		return ended(result, told.Status, told.ReferenceNo, request)
	}
	for _, made := range told.RefundList.Records {
		if made.UserDefined1 == "" && couldBe(made, request) {
			result.Err = errors.New("2c2p: a refund of this amount has nobody's number on it")
			return result
		}
	}
	result.Verdict = psp.NotFound
	return result
}

// recorded judges a refund that is listed, whose amount has to fit.
func recorded(result psp.Result, made record, request psp.RefundRequest) psp.Result {
	amount, err := made.Amount.money(request.Money.Currency)
	if err == nil && amount != request.Money {
		err = errors.New("2c2p: the refund is over another amount")
	}
	if err != nil {
		result.Code, result.TradeNo, result.Err = made.Status, made.ReferenceNo, err
		return result
	}
	return ended(result, made.Status, made.ReferenceNo, request)
}

// couldBe tells whether a refund that is listed might be the one in question.
func couldBe(made record, request psp.RefundRequest) bool {
	amount, err := made.Amount.money(request.Money.Currency)
	return err != nil || (amount == request.Money && statuses[made.Status] != psp.Terminal)
}
