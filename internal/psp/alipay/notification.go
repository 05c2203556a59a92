package alipay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/smartwalle/alipay/v3"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
)

// ParseNotification implements psp.Provider: a form, signed over its sorted
// parameters (opendocs.alipay.com/open/270/105902).
//
// One trade has several events. Its payment is the key alipay:{out_trade_no};
// another status has the status as a suffix, since WAIT_BUYER_PAY must not
// swallow the TRADE_SUCCESS that follows; a refund, which arrives under the
// status that the trade then has, has its own number.
func (p *Provider) ParseNotification(_ context.Context, _ http.Header, body []byte) (psp.Notification, error) {
	form, err := unambiguous(body)
	if err != nil {
		return psp.Notification{}, err
	}
	told, err := p.client.DecodeNotification(form)
	if err != nil {
		return psp.Notification{}, errors.New("alipay: the notification's signature does not verify")
	}
	switch {
	case told.AppId != p.config.AppID:
		return psp.Notification{}, fmt.Errorf("alipay: the notification is for app %q", told.AppId)
	case p.config.SellerID != "" && told.SellerId != p.config.SellerID:
		return psp.Notification{}, fmt.Errorf("alipay: the notification is for seller %q", told.SellerId)
	case told.OutTradeNo == "":
		return psp.Notification{}, errors.New("alipay: the notification names no out_trade_no")
	}
	total, err := money.ParseDecimal(told.TotalAmount, "CNY")
	if err != nil {
		return psp.Notification{}, fmt.Errorf("alipay: the notification's total_amount: %w", err)
	}
	return event(psp.Notification{
		OrderID: told.OutTradeNo, TradeNo: told.TradeNo, Money: total, Code: string(told.TradeStatus),
		Key: "webhook:alipay:" + told.OutTradeNo,
	}, told)
}

// unambiguous reads the form. The signature is over its parameters joined by
// &, so that a value that contains & could hide the parameters that follow it:
// such a form, and one that gives a parameter twice, is no notification for an
// order of ours, whose subjects have no &.
func unambiguous(body []byte) (url.Values, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errors.New("alipay: the notification is not a form")
	}
	for name, values := range form {
		if len(values) > 1 || strings.Contains(values[0], "&") {
			return nil, fmt.Errorf("alipay: parameter %q of the notification is ambiguous", name)
		}
	}
	return form, nil
}

// event tells the events of a trade apart. A refund of a part leaves the trade
// at TRADE_SUCCESS, one of the whole closes it; TRADE_FINISHED is the end of
// the time for refunds, and no refund even where it repeats one.
func event(n psp.Notification, told *sdk.Notification) (psp.Notification, error) {
	refunded, err := refundedTotal(told)
	if err != nil {
		return psp.Notification{}, err
	}
	isRefund := refunded.Amount > 0
	switch told.TradeStatus {
	case sdk.TradeStatusSuccess:
		if isRefund {
			return refund(n, told, refunded), nil
		}
		n.Event = psp.EventPaid
		return n, nil
	case sdk.TradeStatusClosed:
		if isRefund {
			return refund(n, told, refunded), nil
		}
		n.Event = psp.EventClosed
	case sdk.TradeStatusFinished:
		n.Event = psp.EventFinished
	case sdk.TradeStatusWaitBuyerPay:
		n.Event = psp.EventWaiting
	default:
		return psp.Notification{}, fmt.Errorf("alipay: the notification has an unknown trade_status %q", told.TradeStatus)
	}
	n.Key += ":" + string(told.TradeStatus)
	return n, nil
}

// refundedTotal is what was given back of the trade in all so far: a payment's
// notification leaves refund_fee out or has it 0.00.
func refundedTotal(told *sdk.Notification) (money.Money, error) {
	if told.RefundFee == "" && told.GmtRefund == "" {
		return money.Money{Currency: "CNY"}, nil
	}
	total, err := money.ParseDecimal(told.RefundFee, "CNY")
	if err != nil {
		return money.Money{}, fmt.Errorf("alipay: the notification's refund_fee: %w", err)
	}
	return total, nil
}

// refund is the event of one refund. out_biz_no is its out_request_no; a
// refund without any number is told apart by the total that it leads to.
func refund(n psp.Notification, told *sdk.Notification, total money.Money) psp.Notification {
	n.Event, n.RefundedTotal = psp.EventRefundPartial, total
	if total.Amount >= n.Money.Amount {
		n.Event = psp.EventRefundFull
	}
	n.RefundID = told.OutBizNo
	if n.RefundID == "" {
		n.RefundID = told.OutRequestNo
	}
	if n.RefundID != "" {
		n.Key += ":refund:" + n.RefundID
	} else {
		n.Key += fmt.Sprintf(":refunded:%d", total.Amount)
	}
	return n
}

// Acknowledge implements psp.Provider: these seven bytes and nothing else
// (opendocs.alipay.com/open/270/105902).
func (p *Provider) Acknowledge() psp.Acknowledgement {
	return psp.Acknowledgement{Status: http.StatusOK, ContentType: "text/plain", Body: []byte("success")}
}
