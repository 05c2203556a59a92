package twoctwop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/payonce/payonce/internal/psp"
)

// ParseNotification implements psp.Provider: the backend notification, a token
// that is signed with the merchant's secret key (api-payment-response-backend).
//
// One invoice may see several attempts of the buyer's, each with a tranRef. The
// payment's key is 2c2p:{invoiceNo}:{tranRef}; whatever else is told of an
// attempt has the response code as a suffix, since a pending must not swallow
// the payment that follows.
func (p *Provider) ParseNotification(_ context.Context, _ http.Header, body []byte) (psp.Notification, error) {
	var told envelope
	if err := json.Unmarshal(body, &told); err != nil || told.Payload == "" {
		return psp.Notification{}, errors.New("2c2p: the notification has no payload")
	}
	m, err := p.open(told.Payload)
	if err != nil {
		return psp.Notification{}, err
	}
	switch {
	case m.MerchantID != p.merchantID:
		return psp.Notification{}, fmt.Errorf("2c2p: the notification is for merchant %q", m.MerchantID)
	case m.InvoiceNo == "":
		return psp.Notification{}, errors.New("2c2p: the notification names no invoiceNo")
	case m.reference() == "":
		return psp.Notification{}, errors.New("2c2p: the notification has neither tranRef nor referenceNo")
	}
	// An amount of nothing would be compared with nothing.
	amount, err := m.money()
	if err == nil && amount.Amount < 1 {
		err = errors.New("2c2p: the amount is nothing")
	}
	if err != nil {
		return psp.Notification{}, fmt.Errorf("2c2p: the notification's amount: %w", err)
	}
	event, err := eventOf(m.RespCode)
	if err != nil {
		return psp.Notification{}, err
	}
	n := psp.Notification{
		Event: event, OrderID: m.InvoiceNo, TradeNo: m.reference(), Money: amount, Code: m.RespCode,
		Key: "webhook:2c2p:" + m.InvoiceNo + ":" + m.reference(),
	}
	if m.RespCode != codeSuccess {
		n.Key += ":" + m.RespCode
	}
	return n, nil
}

// eventOf follows from what the code says of the payment. One that leaves the
// money in doubt is no event: the payment is asked about.
func eventOf(code string) (psp.Event, error) {
	switch code {
	case codeSuccess, codeSettled:
		return psp.EventPaid, nil
	case codeCancelled, codeExpired:
		return psp.EventClosed, nil
	}
	known, ok := codes[code]
	switch {
	case ok && known.payment == psp.Pending:
		return psp.EventWaiting, nil
	case ok && known.payment == psp.Terminal:
		return psp.EventFailed, nil
	}
	return "", fmt.Errorf("2c2p: the notification has response code %q, which is no event", code)
}

// Acknowledge implements psp.Provider. The pages ask for no particular answer;
// 2C2P counts a failed delivery as code 9999 (response-code-payment).
func (p *Provider) Acknowledge() psp.Acknowledgement {
	return psp.Acknowledgement{Status: http.StatusOK, ContentType: "text/plain", Body: []byte("OK")}
}
