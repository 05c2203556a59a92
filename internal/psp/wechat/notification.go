package wechat

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
)

// The headers that a notification is verified by (page 4012791861).
const (
	headerTimestamp = "Wechatpay-Timestamp"
	headerNonce     = "Wechatpay-Nonce"
	headerSignature = "Wechatpay-Signature"
	headerSerial    = "Wechatpay-Serial"
)

// headerAlgorithm may name the algorithm of the signature; left out, it is
// this one, which is the only one of a public key.
const (
	headerAlgorithm    = "Wechatpay-Signature-Type"
	signatureAlgorithm = "WECHATPAY2-SHA256-RSA2048"
)

// sealAlgorithm is what seals a notification's content (page 4012071382).
const sealAlgorithm = "AEAD_AES_256_GCM"

// probeSignature is how the signature of a probe begins: WeChat Pay sends
// notifications with a wrong signature to see that they are refused (page
// 4013053249).
const probeSignature = "WECHATPAY/SIGNTEST/"

// tolerance is how far the time of a notification may be from ours, both ways
// (page 4013053249).
const tolerance = 5 * time.Minute

const eventPaid = "TRANSACTION.SUCCESS"

// refundEvents are the event types of refunds, and the state that each has to
// tell (page 4013071196).
var refundEvents = map[string]string{
	"REFUND.SUCCESS": refundSuccess, "REFUND.CLOSED": refundClosed, "REFUND.ABNORMAL": refundAbnormal,
}

// newAEAD is AEAD_AES_256_GCM (page 4012071382).
func newAEAD(apiV3Key string) (cipher.AEAD, error) {
	block, err := aes.NewCipher([]byte(apiV3Key))
	if err != nil {
		return nil, fmt.Errorf("wechat: the APIv3 key: %w", err)
	}
	sealed, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("wechat: the APIv3 key: %w", err)
	}
	return checkedAEAD{sealed}, nil
}

// checkedAEAD refuses a nonce of another length, at which crypto/cipher panics.
type checkedAEAD struct{ cipher.AEAD }

// Open implements cipher.AEAD.
func (a checkedAEAD) Open(dst, nonce, ciphertext, additional []byte) ([]byte, error) {
	if len(nonce) != a.NonceSize() {
		return nil, fmt.Errorf("the nonce has %d bytes and not %d", len(nonce), a.NonceSize())
	}
	plain, err := a.AEAD.Open(dst, nonce, ciphertext, additional)
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return plain, nil
}

// envelope is a notification as it arrives.
type envelope struct {
	EventType string `json:"event_type"`
	Resource  struct {
		Algorithm      string `json:"algorithm"`
		Ciphertext     []byte `json:"ciphertext"` // base64
		Nonce          string `json:"nonce"`
		AssociatedData string `json:"associated_data"`
	} `json:"resource"`
}

// notified is the content of both notifications, of an order that was paid
// and of a refund.
type notified struct {
	MchID         string `json:"mchid"`
	AppID         string `json:"appid"`
	OutTradeNo    string `json:"out_trade_no"`
	TransactionID string `json:"transaction_id"`
	TradeState    string `json:"trade_state"`
	RefundID      string `json:"refund_id"`
	OutRefundNo   string `json:"out_refund_no"`
	RefundStatus  string `json:"refund_status"`
	Amount        struct {
		Total    int64  `json:"total"`
		Refund   int64  `json:"refund"`
		Currency string `json:"currency"`
	} `json:"amount"`
}

// ParseNotification implements psp.Provider: JSON, signed as it is, whose
// content is sealed with the APIv3 key (pages 4012791861, 4013071196).
//
// An order's payment is the key wechat:{transaction_id}; a refund of it has
// its refund_id behind that, and its state where it did not succeed, since a
// refund may fail to arrive first and succeed later.
func (p *Provider) ParseNotification(ctx context.Context, header http.Header, body []byte) (psp.Notification, error) {
	if err := p.checkHeader(header); err != nil {
		return psp.Notification{}, err
	}
	request := &http.Request{Header: header, Body: io.NopCloser(bytes.NewReader(body))}
	if err := p.signatures.Validate(ctx, request); err != nil {
		return psp.Notification{}, errors.New("wechat: the notification's signature does not verify")
	}
	eventType, told, err := p.opened(body)
	if err != nil {
		return psp.Notification{}, err
	}
	if err := p.checkContent(told); err != nil {
		return psp.Notification{}, err
	}
	n := psp.Notification{
		OrderID: told.OutTradeNo, TradeNo: told.TransactionID, Key: "webhook:wechat:" + told.TransactionID,
		Money: money.Money{Amount: told.Amount.Total, Currency: currency},
	}
	if eventType == eventPaid {
		return p.payment(n, told)
	}
	return refunded(n, eventType, told)
}

// opened reads a notification whose signature was verified. The SDK's own
// reader panics at one without a resource, and puts the request into its errors.
func (p *Provider) opened(body []byte) (eventType string, told notified, err error) {
	var outer envelope
	if err := json.Unmarshal(body, &outer); err != nil {
		return "", told, errors.New("wechat: the notification is not the JSON that is wanted")
	}
	sealed := outer.Resource
	if sealed.Algorithm != sealAlgorithm {
		return "", told, fmt.Errorf("wechat: the notification is sealed by %.64q and not %s", sealed.Algorithm, sealAlgorithm)
	}
	plain, err := p.opener.Open(nil, []byte(sealed.Nonce), sealed.Ciphertext, []byte(sealed.AssociatedData))
	if err != nil {
		return "", told, errors.New("wechat: the notification does not open with the APIv3 key")
	}
	if err := json.Unmarshal(plain, &told); err != nil {
		return "", told, errors.New("wechat: the notification's content is not the JSON that is wanted")
	}
	return outer.EventType, told, nil
}

// checkHeader refuses what cannot be genuine before any key is used. Each
// header stands once, so that no two readers can read two things.
func (p *Provider) checkHeader(header http.Header) error {
	for _, name := range []string{headerTimestamp, headerNonce, headerSignature, headerSerial} {
		if values := header.Values(name); len(values) != 1 || values[0] == "" {
			return fmt.Errorf("wechat: the notification has not one header %s", name)
		}
	}
	seconds, err := strconv.ParseInt(header.Get(headerTimestamp), 10, 64)
	switch {
	case strings.HasPrefix(header.Get(headerSignature), probeSignature):
		return errors.New("wechat: the notification is a probe with a wrong signature")
	case header.Get(headerAlgorithm) != "" && header.Get(headerAlgorithm) != signatureAlgorithm:
		return fmt.Errorf("wechat: the notification is signed by %.64q and not %s", header.Get(headerAlgorithm), signatureAlgorithm)
	case header.Get(headerSerial) != p.config.PublicKeyID:
		return fmt.Errorf("wechat: the notification is signed with %.64q and not with the configured public key",
			header.Get(headerSerial))
	case err != nil || time.Since(time.Unix(seconds, 0)).Abs() >= tolerance:
		return fmt.Errorf("wechat: the notification's time %.20q is not within %s of ours", header.Get(headerTimestamp), tolerance)
	}
	return nil
}

// checkContent refuses what is for somebody else, or lacks what every
// notification has. A refund's tells neither app id nor currency.
func (p *Provider) checkContent(told notified) error {
	switch {
	case told.MchID != p.config.MchID:
		return fmt.Errorf("wechat: the notification is for merchant %q", told.MchID)
	case told.AppID != "" && told.AppID != p.config.AppID:
		return fmt.Errorf("wechat: the notification is for app %q", told.AppID)
	case told.OutTradeNo == "" || told.TransactionID == "":
		return errors.New("wechat: the notification names no out_trade_no or no transaction_id")
	case told.Amount.Total < 1 || (told.Amount.Currency != "" && told.Amount.Currency != currency):
		return errors.New("wechat: the notification tells no amount in CNY")
	}
	return nil
}

func (p *Provider) payment(n psp.Notification, told notified) (psp.Notification, error) {
	switch {
	case told.AppID != p.config.AppID:
		return psp.Notification{}, errors.New("wechat: the notification of a payment names no app")
	case tradeStates[told.TradeState] != psp.Succeeded:
		return psp.Notification{}, fmt.Errorf("wechat: the notification of a payment has trade_state %q", told.TradeState)
	}
	n.Event, n.Code = psp.EventPaid, told.TradeState
	return n, nil
}

// refunded is the event of one refund. One that did not arrive (ABNORMAL) is
// not the end of it: all that is sure is that the order was paid.
func refunded(n psp.Notification, eventType string, told notified) (psp.Notification, error) {
	state, known := refundEvents[eventType]
	switch {
	case !known:
		return psp.Notification{}, fmt.Errorf("wechat: the notification has an unknown event_type %q", eventType)
	case told.RefundStatus != state:
		return psp.Notification{}, fmt.Errorf("wechat: the notification %s has refund_status %q", eventType, told.RefundStatus)
	case told.RefundID == "" || told.OutRefundNo == "" || told.Amount.Refund < 1 || told.Amount.Refund > told.Amount.Total:
		return psp.Notification{}, errors.New("wechat: the notification of a refund names no refund, or no amount of the order's")
	}
	n.Code = state
	n.Key += ":refund:" + told.RefundID
	if state != refundSuccess {
		n.Key += ":" + state
	}
	if state == refundAbnormal {
		n.Event = psp.EventPaid
		return n, nil
	}
	n.RefundID, n.Refunded = told.OutRefundNo, money.Money{Amount: told.Amount.Refund, Currency: currency}
	switch {
	case state == refundClosed:
		n.Event = psp.EventRefundFailed
	case told.Amount.Refund == told.Amount.Total:
		n.Event = psp.EventRefundFull
	default:
		n.Event = psp.EventRefundPartial
	}
	return n, nil
}

// Acknowledge implements psp.Provider. WeChat Pay looks at the status, 200 or
// 204, and wants no body (page 4012791861); earlier editions of the page show
// this one.
func (p *Provider) Acknowledge() psp.Acknowledgement {
	return psp.Acknowledgement{Status: http.StatusOK, ContentType: "application/json", Body: []byte(`{"code":"SUCCESS"}`)}
}
