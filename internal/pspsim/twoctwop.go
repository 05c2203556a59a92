package pspsim

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/payonce/payonce/internal/money"
)

const twoctwopName = "2c2p"

const (
	twoctwopPath     = "/2c2p"
	maxTwoCTwoPBytes = 1 << 20
)

// twoctwopZone is the time zone of 2C2P's times: it is a company of Singapore.
var twoctwopZone = time.FixedZone("SGT", 8*60*60)

// twoctwopAPI is 2C2P's payment gateway 4.3 and its payment maintenance for
// one merchant. The pages in the comments are those below
// developer.2c2p.com/docs/.
type twoctwopAPI struct {
	*Simulator
	own    map[string]twoctwopOwn // what was asked of a refund, by its number; guarded by the simulator's lock
	voided map[*trade]bool        // likewise
}

func newTwoCTwoP(s *Simulator) *twoctwopAPI {
	return &twoctwopAPI{Simulator: s, own: map[string]twoctwopOwn{}, voided: map[*trade]bool{}}
}

func (a *twoctwopAPI) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST "+twoctwopPath+"/payment/4.3/paymentToken", a.authentic(opCharge, a.paymentToken))
	mux.HandleFunc("POST "+twoctwopPath+"/payment/4.3/paymentInquiry", a.authentic(opQuery, a.paymentInquiry))
	mux.HandleFunc("POST "+twoctwopPath+"/PaymentAction/2.0/action", a.maintain)
}

// twoctwopClaims are the fields of a token's payload.
type twoctwopClaims map[string]any

func (c twoctwopClaims) text(name string) string {
	text, _ := c[name].(string)
	return text
}

// envelope is the body of requests, answers and notifications.
type twoctwopEnvelope struct {
	Payload string `json:"payload"`
}

// authentic verifies a request, and answers it under the fault that is armed.
func (a *twoctwopAPI) authentic(op string, do func(twoctwopClaims) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.count(twoctwopName, op)
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTwoCTwoPBytes))
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		claims, refused, ok := a.open(body)
		if !ok {
			refused.write(w)
			return
		}
		answer, cut := a.perform(call{
			provider: twoctwopName, op: op, systemError: a.refusal("0999", "System error"),
			refused: a.refusal("9059", "Payment channel unauthorized"), do: func() answer { return do(claims) },
		})
		if cut {
			cutConnection(w)
			return
		}
		answer.write(w)
	}
}

// open reads the token of a request: HS256 with the merchant's secret key
// (json-web-tokens-jwt). A refusal at this gate carries no signature, since
// whose request it was is not known.
func (a *twoctwopAPI) open(body []byte) (twoctwopClaims, answer, bool) {
	var envelope twoctwopEnvelope
	if err := json.Unmarshal(body, &envelope); err != nil || envelope.Payload == "" {
		return nil, twoctwopUnsigned("9900", "Unable to decrypt the payload"), false
	}
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(envelope.Payload, claims, func(*jwt.Token) (any, error) {
		return []byte(a.options.Keys.TwoCTwoPSecretKey), nil
	}, jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithJSONNumber())
	switch {
	case errors.Is(err, jwt.ErrTokenMalformed):
		return nil, twoctwopUnsigned("9900", "Unable to decrypt the payload"), false
	case err != nil:
		return nil, twoctwopUnsigned("9042", "Hash value mismatch"), false
	case claims["merchantID"] != a.options.Keys.TwoCTwoPMerchantID:
		return nil, twoctwopUnsigned("9007", "Invalid merchant"), false
	}
	return twoctwopClaims(claims), answer{}, true
}

// twoctwopOrder is what a payment token is asked for
// (api-payment-token-request-parameter).
type twoctwopOrder struct {
	invoiceNo, description, idempotencyID string
	amount                                money.Money
	channels                              string
}

var twoctwopInvoice = regexp.MustCompile(`^[A-Za-z0-9]+$`)

// twoctwopRefusal is a response code with its description.
type twoctwopRefusal struct{ code, description string }

// order reads the fields, or says what the gateway answers to them. A field's
// type comes before its length.
func (c twoctwopClaims) order() (twoctwopOrder, *twoctwopRefusal) {
	order := twoctwopOrder{
		invoiceNo: c.text("invoiceNo"), description: c.text("description"), idempotencyID: c.text("idempotencyID"),
	}
	switch {
	case order.invoiceNo == "" || order.description == "" || c["amount"] == nil:
		return order, &twoctwopRefusal{"9005", "Some mandatory fields are missing"}
	case !twoctwopInvoice.MatchString(order.invoiceNo):
		return order, &twoctwopRefusal{"9004", "The invoiceNo value is not valid"}
	case len(order.invoiceNo) > 50 || utf8.RuneCountInString(order.description) > 250 || len(order.idempotencyID) > 100:
		return order, &twoctwopRefusal{"9006", "This field exceeded its authorized length"}
	}
	currency := c.text("currencyCode")
	if _, err := money.Exponent(currency); err != nil {
		return order, &twoctwopRefusal{"9010", "Invalid Currency Code"}
	}
	number, isNumber := c["amount"].(json.Number)
	amount, err := twoctwopAmount(number.String(), currency)
	if !isNumber || err != nil || amount.Amount < 1 {
		return order, &twoctwopRefusal{"9009", "Amount is invalid"}
	}
	order.amount = amount
	return order, c.checkChannels(&order)
}

var twoctwopChannel = regexp.MustCompile(`^[A-Za-z0-9]{1,6}$`)

func (c twoctwopClaims) checkChannels(order *twoctwopOrder) *twoctwopRefusal {
	channels, isList := c["paymentChannel"].([]any)
	if c["paymentChannel"] != nil && !isList {
		return &twoctwopRefusal{"9058", "Payment channel invalid"}
	}
	var names []string
	for _, channel := range channels {
		name, _ := channel.(string)
		if !twoctwopChannel.MatchString(name) {
			return &twoctwopRefusal{"9058", "Payment channel invalid"}
		}
		names = append(names, name)
	}
	order.channels = strings.Join(names, ",")
	return nil
}

var twoctwopDecimal = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,5})?$`)

// twoctwopAmount reads D (12,5): up to 12 digits and up to 5 decimals, of which
// only the currency's may say anything.
func twoctwopAmount(text, currency string) (money.Money, error) {
	if !twoctwopDecimal.MatchString(text) {
		return money.Money{}, fmt.Errorf("amount %q is not D (12,5)", text)
	}
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return money.ParseDecimal(text, currency)
}

// paymentToken opens the order. The request that has the same idempotencyID
// and says the same gets the first answer again; any other for the same
// invoiceNo is refused.
func (a *twoctwopAPI) paymentToken(c twoctwopClaims) answer {
	order, refused := c.order()
	if refused != nil {
		return a.refusal(refused.code, refused.description)()
	}
	terms, err := json.Marshal(c)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	key := tradeKey{twoctwopName, order.invoiceNo}
	t, exists := a.byNumber[key]
	switch {
	case !exists:
		t = &trade{
			tradeKey: key, outTradeNo: order.invoiceNo, tradeNo: a.nextNumber(), amount: order.amount.Amount,
			currency: order.amount.Currency, terms: string(terms), subject: order.description,
			notifyURL: c.text("backendReturnUrl"), method: order.channels,
		}
		a.Simulator.open(t)
	case order.idempotencyID == "" || t.terms != string(terms):
		return a.refusal("9015", "Existing Invoice Number")()
	}
	a.payUnlessManual(t)
	token := base64.StdEncoding.EncodeToString([]byte(fingerprint(t.tradeNo)))
	return a.signed(twoctwopClaims{
		"webPaymentUrl": "https://sandbox-pgw-ui.2c2p.com/payment/4.3/#/token/" + token, "paymentToken": token,
		"respCode": "0000", "respDesc": "Success",
	})
}

// paymentInquiry tells of a payment (api-payment-inquiry). There is none before
// the buyer paid or turned away, whatever tokens there are.
func (a *twoctwopAPI) paymentInquiry(c twoctwopClaims) answer {
	invoiceNo := c.text("invoiceNo")
	if invoiceNo == "" {
		return a.refusal("9005", "Some mandatory fields are missing")()
	}
	t := a.byNumber[tradeKey{twoctwopName, invoiceNo}]
	if t == nil || t.status == waiting {
		return a.signed(twoctwopClaims{
			"merchantID": a.options.Keys.TwoCTwoPMerchantID, "invoiceNo": invoiceNo,
			"respCode": "2002", "respDesc": "Transaction not found",
		})
	}
	code, description := "0000", "Successful"
	switch {
	case t.status == closed || a.voided[t]:
		code, description = "0003", "Transaction is cancelled"
	case t.refunded() == t.amount:
		code, description = "4120", "Refunded"
	}
	told := a.payment(t, t.tradeNo, code, description)
	told["amount"] = json.Number(twoctwopAmountText(t.amount, t.currency))
	return a.signed(told)
}

// payment is a payment as the inquiry and the notification tell it
// (api-payment-inquiry-response-parameter,
// api-payment-response-back-end-parameter).
func (a *twoctwopAPI) payment(t *trade, reference, code, description string) twoctwopClaims {
	channel := t.method
	if channel == "" {
		channel = "VI"
	}
	digits := inventedNumber(reference)
	return twoctwopClaims{
		"merchantID": a.options.Keys.TwoCTwoPMerchantID, "invoiceNo": t.outTradeNo, "currencyCode": t.currency,
		"amount": twoctwopAmountText(t.amount, t.currency), "tranRef": reference, "referenceNo": digits[:10],
		"approvalCode": digits[10:16], "paymentID": "ccpp_" + digits[16:], "eci": "05", "agentCode": "OCBC",
		"channelCode": channel, "accountNo": "411111XXXXXX1111",
		"transactionDateTime": orCreated(t, t.paidAt).In(twoctwopZone).Format("20060102150405"),
		"respCode":            code, "respDesc": description,
	}
}

// twoctwopAmountText writes an amount with the currency's decimals.
func twoctwopAmountText(amount int64, currency string) string {
	text, err := money.Money{Amount: amount, Currency: currency}.Decimal()
	if err != nil {
		return ""
	}
	return text
}

// twoctwopEvents are the response codes of the notifications. There is none for
// refunds: those are asked about.
var twoctwopEvents = map[string]twoctwopRefusal{
	eventPaid:    {"0000", "Success"},
	eventWaiting: {"0001", "Transaction is pending"},
	eventFailed:  {"4005", "Do not honor"},
	eventClosed:  {"0003", "Transaction is cancelled"},
}

// message is the backend notification (api-payment-response-backend). Each
// attempt of the buyer's has its own tranRef. Any 2xx is an acknowledgement.
func (a *twoctwopAPI) message(t *trade, e event) (message, error) {
	told, ok := twoctwopEvents[e.kind]
	if !ok {
		return message{}, noEvent(twoctwopName, e.kind)
	}
	reference := t.tradeNo
	if e.kind == eventFailed {
		reference = inventedNumber(t.tradeNo, e.kind)
	}
	token, err := a.token(a.payment(t, reference, told.code, told.description))
	if err != nil {
		return message{}, err
	}
	body, err := json.Marshal(twoctwopEnvelope{token})
	if err != nil {
		return message{}, fmt.Errorf("write the notification: %w", err)
	}
	return message{
		url: a.target(twoctwopName, t.notifyURL), body: string(body),
		header: func() (http.Header, error) {
			return http.Header{"Content-Type": {"application/json; charset=utf-8"}}, nil
		},
		accepted: func(ack acknowledgement) bool { return ack.Status/100 == 2 },
	}, nil
}

func (a *twoctwopAPI) token(c twoctwopClaims) (string, error) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims(c)).
		SignedString([]byte(a.options.Keys.TwoCTwoPSecretKey))
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

func (a *twoctwopAPI) refusal(code, description string) func() answer {
	return func() answer { return a.signed(twoctwopClaims{"respCode": code, "respDesc": description}) }
}

func (a *twoctwopAPI) signed(c twoctwopClaims) answer {
	token, err := a.token(c)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	return twoctwopJSON(twoctwopEnvelope{token})
}

func twoctwopUnsigned(code, description string) answer {
	return twoctwopJSON(map[string]string{"respCode": code, "respDesc": description})
}

func twoctwopJSON(content any) answer {
	body, err := json.Marshal(content)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	return answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}, body: body}
}
