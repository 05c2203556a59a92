package twoctwop

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// The kinds of payment maintenance (payment-maintenance-how-it-works).
const (
	processRefund       = "R"
	processVoid         = "V"
	processRefundStatus = "RS"
)

// maintenanceVersion is what the pages' samples have.
const maintenanceVersion = "3.8"

// action is a request of payment maintenance (payment-maintenance-refund-guide).
type action struct {
	XMLName       xml.Name `xml:"PaymentProcessRequest"`
	Version       string   `xml:"version"`
	MerchantID    string   `xml:"merchantID"`
	InvoiceNo     string   `xml:"invoiceNo"`
	ActionAmount  string   `xml:"actionAmount"`
	ProcessType   string   `xml:"processType"`
	IdempotencyID string   `xml:"idempotencyID,omitempty"`
	UserDefined1  string   `xml:"userDefined1,omitempty"`
}

// outcome is the answer to one.
type outcome struct {
	XMLName           xml.Name `xml:"PaymentProcessResponse"`
	RespCode          string   `xml:"respCode"`
	RespDesc          string   `xml:"respDesc"`
	ProcessType       string   `xml:"processType"`
	InvoiceNo         string   `xml:"invoiceNo"`
	Status            string   `xml:"status"`
	ReferenceNo       string   `xml:"referenceNo"`
	RefundReferenceNo string   `xml:"refundReferenceNo"`
	RefundList        struct {
		Records []record `xml:",any"`
	} `xml:"refundList"`
}

// record is one refund of a payment (payment-maintenance-refund-status-guide).
type record struct {
	Amount       decimal `xml:"amount"`
	Status       string  `xml:"status"`
	ReferenceNo  string  `xml:"referenceNo"`
	UserDefined1 string  `xml:"userDefined1"`
}

// maintain sends one request of payment maintenance. An answer about something
// else than was asked is an error.
func (p *Provider) maintain(ctx context.Context, asked action) (outcome, error) {
	asked.Version, asked.MerchantID = maintenanceVersion, p.merchantID
	body, err := p.seal(asked)
	if err != nil {
		return outcome{}, err
	}
	answer, err := p.post(ctx, p.actionURL, "text/plain", []byte(body))
	if err != nil {
		return outcome{}, err
	}
	told, err := p.unseal(string(answer))
	if err != nil {
		return outcome{}, err
	}
	if told.RespCode == resultSuccess && (told.ProcessType != asked.ProcessType || told.InvoiceNo != asked.InvoiceNo) {
		return outcome{}, errors.New("2c2p: the answer is about another request")
	}
	return told, nil
}

// seal writes a request: XML in a JWE to 2C2P (RSA-OAEP and A256GCM) in a JWS
// by the merchant (PS256), see reference-jwt-with-key.
func (p *Provider) seal(asked action) (string, error) {
	plain, err := xml.Marshal(asked)
	if err != nil {
		return "", fmt.Errorf("2c2p: write a request: %w", err)
	}
	encrypter, err := jose.NewEncrypter(jose.A256GCM, jose.Recipient{Algorithm: jose.RSA_OAEP, Key: p.public}, nil)
	if err != nil {
		return "", fmt.Errorf("2c2p: encrypt a request: %w", err)
	}
	encrypted, err := encrypter.Encrypt(plain)
	if err != nil {
		return "", fmt.Errorf("2c2p: encrypt a request: %w", err)
	}
	inner, err := encrypted.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("2c2p: encrypt a request: %w", err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.PS256, Key: p.private},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", fmt.Errorf("2c2p: sign a request: %w", err)
	}
	signed, err := signer.Sign([]byte(inner))
	if err != nil {
		return "", fmt.Errorf("2c2p: sign a request: %w", err)
	}
	return signed.CompactSerialize()
}

// unseal verifies and decrypts an answer. No other algorithms are taken than
// the documented ones, whatever the answer says.
func (p *Provider) unseal(body string) (outcome, error) {
	signed, err := jose.ParseSignedCompact(body, []jose.SignatureAlgorithm{jose.PS256})
	if err != nil {
		return outcome{}, fmt.Errorf("2c2p: the answer is not signed as documented: %w", err)
	}
	inner, err := signed.Verify(p.public)
	if err != nil {
		return outcome{}, fmt.Errorf("2c2p: the answer's signature does not verify: %w", err)
	}
	encrypted, err := jose.ParseEncryptedCompact(string(inner), []jose.KeyAlgorithm{jose.RSA_OAEP},
		[]jose.ContentEncryption{jose.A256GCM})
	if err != nil {
		return outcome{}, fmt.Errorf("2c2p: the answer is not encrypted as documented: %w", err)
	}
	plain, err := encrypted.Decrypt(p.private)
	if err != nil {
		return outcome{}, fmt.Errorf("2c2p: the answer cannot be decrypted: %w", err)
	}
	var told outcome
	if err := xml.Unmarshal(plain, &told); err != nil {
		return outcome{}, errors.New("2c2p: the answer is not the XML that is documented")
	}
	return told, nil
}
