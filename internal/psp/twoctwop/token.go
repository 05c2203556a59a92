package twoctwop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/golang-jwt/jwt/v5"

	"github.com/payonce/payonce/internal/money"
)

// envelope is the body of requests, answers and notifications. An answer to a
// request that 2C2P could not verify has a code and no payload.
type envelope struct {
	Payload  string `json:"payload,omitempty"`
	RespCode string `json:"respCode,omitempty"`
	RespDesc string `json:"respDesc,omitempty"`
}

// message is what is told in a token: the answer to a payment token or to an
// inquiry, or a notification. Each has some of the fields.
type message struct {
	jwt.RegisteredClaims
	MerchantID    string  `json:"merchantID"`
	InvoiceNo     string  `json:"invoiceNo"`
	Amount        decimal `json:"amount"`
	CurrencyCode  string  `json:"currencyCode"`
	TranRef       string  `json:"tranRef"`
	ReferenceNo   string  `json:"referenceNo"`
	RespCode      string  `json:"respCode"`
	RespDesc      string  `json:"respDesc"`
	PaymentToken  string  `json:"paymentToken"`
	WebPaymentURL string  `json:"webPaymentUrl"`
}

// reference is 2C2P's own number, or the card host's where there is none.
func (m message) reference() string {
	if m.TranRef != "" {
		return m.TranRef
	}
	return m.ReferenceNo
}

// money reads the amount exactly.
func (m message) money() (money.Money, error) { return m.Amount.money(m.CurrencyCode) }

// sign writes a token: HS256 with the merchant's secret key
// (json-web-tokens-jwt).
func (p *Provider) sign(claims jwt.MapClaims) (string, error) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(p.secret)
	if err != nil {
		return "", fmt.Errorf("2c2p: sign a token: %w", err)
	}
	return token, nil
}

// open verifies a token. No algorithm but HS256 is taken, whatever the token
// says.
func (p *Provider) open(token string) (message, error) {
	var told message
	_, err := jwt.ParseWithClaims(token, &told, func(*jwt.Token) (any, error) { return p.secret, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}))
	if err != nil {
		return message{}, fmt.Errorf("2c2p: the token does not verify: %w", err)
	}
	return told, nil
}

// errUnsigned is a refusal without 2C2P's signature.
type errUnsigned struct{ code, description string }

func (e *errUnsigned) Error() string { return "2c2p: answered " + e.code + " without a signature" }

// call sends claims and reads the answer.
func (p *Provider) call(ctx context.Context, address string, claims jwt.MapClaims) (message, error) {
	token, err := p.sign(claims)
	if err != nil {
		return message{}, err
	}
	request, err := json.Marshal(envelope{Payload: token})
	if err != nil {
		return message{}, fmt.Errorf("2c2p: write a request: %w", err)
	}
	body, err := p.post(ctx, address, "application/json", request)
	if err != nil {
		return message{}, err
	}
	var answer envelope
	if err := json.Unmarshal(body, &answer); err != nil {
		return message{}, errors.New("2c2p: the answer is not JSON")
	}
	if answer.Payload == "" && answer.RespCode != "" {
		return message{}, &errUnsigned{answer.RespCode, answer.RespDesc}
	}
	return p.open(answer.Payload)
}

// post sends one request and reads the body of a 200.
func (p *Provider) post(ctx context.Context, address, contentType string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("2c2p: make a request: %w", err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("2c2p: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("2c2p: read the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("2c2p: answered %s", response.Status)
	}
	return answer, nil
}
