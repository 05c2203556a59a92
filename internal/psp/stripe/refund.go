package stripe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	sdk "github.com/stripe/stripe-go/v82"

	"github.com/payonce/payonce/internal/psp"
)

// maxReason bounds a metadata value, in characters (docs.stripe.com/api/metadata).
const maxReason = 500

// Refund implements psp.Provider. Paid of the Result is what was given back.
//
// Nothing but the key tells a repetition from another refund. Where Stripe
// keeps a failure of its own under the key, the list of the intent's refunds
// decides, and only when this one is not in it is it made under the next key.
func (p *Provider) Refund(ctx context.Context, request psp.RefundRequest) psp.Result {
	amount, err := units(request.Money)
	if err != nil {
		return psp.Result{Verdict: psp.Transient, Err: err}
	}
	intentID, refusal := p.refundable(ctx, request.Trade)
	if refusal != nil {
		return *refusal
	}
	request.Trade.TradeNo = intentID
	for generation := 1; generation <= maxGenerations; generation++ {
		refund, err := p.client.V1Refunds.Create(ctx, refundParams(request, amount, generation))
		if err == nil {
			return judgedRefund(refund, request)
		}
		result := failed(refunding, err)
		if !neverChanges(err) && result.Code != codeAlreadyRefunded {
			return result
		}
		told := p.QueryRefund(ctx, request)
		if told.Verdict != psp.NotFound {
			return told
		}
		if result.Verdict == psp.Terminal {
			return result
		}
	}
	return psp.Result{Err: errSpent}
}

func refundParams(request psp.RefundRequest, amount int64, generation int) *sdk.RefundCreateParams {
	step := "payonce/" + request.Trade.OrderID + "/refund/" + request.RefundID
	if generation > 1 {
		step += "/" + strconv.Itoa(generation)
	}
	metadata := map[string]string{metaOrder: request.Trade.OrderID, metaRefund: request.RefundID}
	if request.Reason != "" {
		metadata[metaReason] = cut(request.Reason)
	}
	return &sdk.RefundCreateParams{
		Params: sdk.Params{IdempotencyKey: sdk.String(step), Metadata: metadata},
		Amount: sdk.Int64(amount), PaymentIntent: sdk.String(request.Trade.TradeNo),
	}
}

func cut(text string) string {
	if utf8.RuneCountInString(text) <= maxReason {
		return text
	}
	return string([]rune(text)[:maxReason])
}

// refundable is the intent that was paid: by its number, or the one of the
// attempt that the list has.
func (p *Provider) refundable(ctx context.Context, trade psp.Trade) (string, *psp.Result) {
	if trade.TradeNo != "" {
		return trade.TradeNo, nil
	}
	intents, err := p.listed(ctx, trade)
	if err != nil {
		result := failed(asking, err)
		return "", &result
	}
	for _, intent := range intents {
		if intent.Status == sdk.PaymentIntentStatusSucceeded {
			return intent.ID, nil
		}
	}
	return "", &psp.Result{Err: errors.New("stripe: no paid payment intent was found for order " + trade.OrderID)}
}

// QueryRefund implements psp.Provider, by the list of the intent's refunds.
func (p *Provider) QueryRefund(ctx context.Context, request psp.RefundRequest) psp.Result {
	intentID, refusal := p.refundable(ctx, request.Trade)
	if refusal != nil {
		return *refusal
	}
	params := &sdk.RefundListParams{PaymentIntent: sdk.String(intentID)}
	params.Limit = sdk.Int64(pageSize)
	for refund, err := range p.client.V1Refunds.List(ctx, params) {
		if err != nil {
			return failed(asking, err)
		}
		if refund.Metadata[metaRefund] == request.RefundID {
			return judgedRefund(refund, request)
		}
	}
	return psp.Result{Verdict: psp.NotFound}
}

// judgedRefund tells what the status of a refund means
// (docs.stripe.com/api/refunds/object).
func judgedRefund(refund *sdk.Refund, request psp.RefundRequest) psp.Result {
	result := psp.Result{TradeNo: refund.ID, Code: string(refund.Status)}
	switch refund.Status {
	case sdk.RefundStatusSucceeded:
		result = paid(result, refund.Amount, string(refund.Currency))
	case sdk.RefundStatusPending, sdk.RefundStatusRequiresAction:
		result.Verdict = psp.Pending
	case sdk.RefundStatusFailed, sdk.RefundStatusCanceled:
		result.Verdict = psp.Terminal
		if refund.FailureReason != "" {
			result.Code = string(refund.FailureReason)
		}
	}
	if result.Verdict == psp.Succeeded && result.Paid != request.Money {
		result.Verdict = psp.InDoubt
		result.Err = fmt.Errorf("stripe: refund %s is over %d %s, not %d %s", request.RefundID,
			result.Paid.Amount, result.Paid.Currency, request.Money.Amount, request.Money.Currency)
	}
	return result
}
