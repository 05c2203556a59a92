package alipay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

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
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return psp.Notification{}, errors.New("alipay: the notification is not a form")
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
	n := psp.Notification{
		OrderID: told.OutTradeNo, TradeNo: told.TradeNo, Money: total, Code: string(told.TradeStatus),
		Key: "webhook:alipay:" + told.OutTradeNo,
	}
	if told.RefundFee != "" || told.GmtRefund != "" {
		return refunded(n, told)
	}
	switch told.TradeStatus {
	case sdk.TradeStatusSuccess:
		n.Event = psp.EventPaid
		return n, nil
	case sdk.TradeStatusFinished:
		n.Event = psp.EventFinished
	case sdk.TradeStatusWaitBuyerPay:
		n.Event = psp.EventWaiting
	case sdk.TradeStatusClosed:
		n.Event = psp.EventClosed
	default:
		return psp.Notification{}, fmt.Errorf("alipay: the notification has an unknown trade_status %q", told.TradeStatus)
	}
	n.Key += ":" + string(told.TradeStatus)
	return n, nil
}

// refunded reads a refund: refund_fee is what was given back in all so far,
// out_biz_no the number of this refund.
func refunded(n psp.Notification, told *sdk.Notification) (psp.Notification, error) {
	total, err := money.ParseDecimal(told.RefundFee, "CNY")
	if err != nil {
		return psp.Notification{}, fmt.Errorf("alipay: the notification's refund_fee: %w", err)
	}
	n.RefundedTotal = total
	n.RefundID = told.OutBizNo
	if n.RefundID == "" {
		n.RefundID = told.OutRequestNo
	}
	n.Event = psp.EventRefundPartial
	if total.Amount >= n.Money.Amount {
		n.Event = psp.EventRefundFull
	}
	if n.RefundID != "" {
		n.Key += ":refund:" + n.RefundID
	} else {
		n.Key += ":refunded:" + told.RefundFee
	}
	return n, nil
}

// Acknowledge implements psp.Provider: these seven bytes and nothing else
// (opendocs.alipay.com/open/270/105902).
func (p *Provider) Acknowledge() psp.Acknowledgement {
	return psp.Acknowledgement{Status: http.StatusOK, ContentType: "text/plain", Body: []byte("success")}
}
