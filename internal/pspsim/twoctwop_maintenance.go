package pspsim

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The kinds of payment maintenance (payment-maintenance-how-it-works).
const (
	twoctwopInquiry      = "I"
	twoctwopVoid         = "V"
	twoctwopRefunding    = "R"
	twoctwopRefundStatus = "RS"
)

// twoctwopOps are the operations that they count as.
var twoctwopOps = map[string]string{
	twoctwopInquiry: opQuery, twoctwopVoid: "void", twoctwopRefunding: opRefund, twoctwopRefundStatus: opQuery,
}

// twoctwopOwn are the merchant's own words on a refund.
type twoctwopOwn struct {
	UserDefined1 string `xml:"userDefined1,omitempty"`
	UserDefined2 string `xml:"userDefined2,omitempty"`
	UserDefined3 string `xml:"userDefined3,omitempty"`
	UserDefined4 string `xml:"userDefined4,omitempty"`
	UserDefined5 string `xml:"userDefined5,omitempty"`
}

// twoctwopAction is a request (payment-maintenance-refund-guide,
// payment-maintenance-void-guide, payment-maintenance-refund-status-guide).
type twoctwopAction struct {
	XMLName       xml.Name `xml:"PaymentProcessRequest"`
	Version       string   `xml:"version"`
	MerchantID    string   `xml:"merchantID"`
	InvoiceNo     string   `xml:"invoiceNo"`
	ActionAmount  string   `xml:"actionAmount"`
	ProcessType   string   `xml:"processType"`
	IdempotencyID string   `xml:"idempotencyID"`
	twoctwopOwn
}

// twoctwopResult is the answer to one.
type twoctwopResult struct {
	XMLName             xml.Name            `xml:"PaymentProcessResponse"`
	Version             string              `xml:"version"`
	TimeStamp           string              `xml:"timeStamp"`
	RespCode            string              `xml:"respCode"`
	RespDesc            string              `xml:"respDesc"`
	ProcessType         string              `xml:"processType,omitempty"`
	InvoiceNo           string              `xml:"invoiceNo,omitempty"`
	Amount              string              `xml:"amount,omitempty"`
	Status              string              `xml:"status,omitempty"`
	ReferenceNo         string              `xml:"referenceNo,omitempty"`
	RefundReferenceNo   string              `xml:"refundReferenceNo,omitempty"`
	TransactionDateTime string              `xml:"transactionDateTime,omitempty"`
	Refunds             *twoctwopRefundList `xml:"refundList"`
}

type twoctwopRefundList struct {
	Refund []twoctwopRefundRecord `xml:"refund"`
}

type twoctwopRefundRecord struct {
	Amount      string `xml:"amount"`
	Status      string `xml:"status"`
	ReferenceNo string `xml:"referenceNo"`
	DateTime    string `xml:"dateTime"`
	twoctwopOwn
}

// maintain opens, performs and seals one request of payment maintenance.
func (a *twoctwopAPI) maintain(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTwoCTwoPBytes))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	action, err := a.unseal(string(body))
	if err != nil {
		a.count(twoctwopName, "maintenance")
		a.result(action, "96", "Unable to decrypt.")().write(w)
		return
	}
	op, known := twoctwopOps[action.ProcessType]
	if !known {
		a.count(twoctwopName, "maintenance")
		a.result(action, "17", "Request type is invalid.")().write(w)
		return
	}
	a.count(twoctwopName, op)
	answer, cut := a.perform(call{
		provider: twoctwopName, op: op, systemError: a.result(action, "99", "Unable to complete the request."),
		refused: a.result(action, "44", "Refund rejected."), do: func() answer { return a.act(action) },
	})
	if cut {
		cutConnection(w)
		return
	}
	answer.write(w)
}

// unseal reads a request: a JWS (PS256) by the merchant around a JWE (RSA-OAEP
// and A256GCM) to 2C2P around XML (reference-jwt-with-key).
func (a *twoctwopAPI) unseal(body string) (twoctwopAction, error) {
	var action twoctwopAction
	outer, err := jose.ParseSignedCompact(body, []jose.SignatureAlgorithm{jose.PS256})
	if err != nil {
		return action, fmt.Errorf("read the signature: %w", err)
	}
	inner, err := outer.Verify(&a.options.Keys.twoctwopMerchant.PublicKey)
	if err != nil {
		return action, fmt.Errorf("verify the signature: %w", err)
	}
	sealed, err := jose.ParseEncryptedCompact(string(inner), []jose.KeyAlgorithm{jose.RSA_OAEP},
		[]jose.ContentEncryption{jose.A256GCM})
	if err != nil {
		return action, fmt.Errorf("read the encryption: %w", err)
	}
	plain, err := sealed.Decrypt(a.options.Keys.twoctwopPlatform)
	if err != nil {
		return action, fmt.Errorf("decrypt: %w", err)
	}
	if err := xml.Unmarshal(plain, &action); err != nil {
		return action, fmt.Errorf("read the XML: %w", err)
	}
	return action, nil
}

// seal is the other way round: encrypted to the merchant, signed by 2C2P.
func (a *twoctwopAPI) seal(result twoctwopResult) (string, error) {
	plain, errXML := xml.Marshal(result)
	encrypter, errKey := jose.NewEncrypter(jose.A256GCM,
		jose.Recipient{Algorithm: jose.RSA_OAEP, Key: &a.options.Keys.twoctwopMerchant.PublicKey}, nil)
	signer, errSigner := jose.NewSigner(jose.SigningKey{Algorithm: jose.PS256, Key: a.options.Keys.twoctwopPlatform},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err := errors.Join(errXML, errKey, errSigner); err != nil {
		return "", fmt.Errorf("seal an answer: %w", err)
	}
	sealed, err := encrypter.Encrypt(plain)
	if err != nil {
		return "", fmt.Errorf("encrypt an answer: %w", err)
	}
	inner, err := sealed.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("encrypt an answer: %w", err)
	}
	signed, err := signer.Sign([]byte(inner))
	if err != nil {
		return "", fmt.Errorf("sign an answer: %w", err)
	}
	return signed.CompactSerialize()
}

func (a *twoctwopAPI) result(action twoctwopAction, code, description string) func() answer {
	return func() answer {
		return a.sealed(action, twoctwopResult{RespCode: code, RespDesc: description})
	}
}

func (a *twoctwopAPI) sealed(action twoctwopAction, result twoctwopResult) answer {
	result.Version, result.TimeStamp = action.Version, time.Now().In(twoctwopZone).Format("020106150405")
	result.ProcessType, result.InvoiceNo = action.ProcessType, action.InvoiceNo
	body, err := a.seal(result)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	return answer{status: http.StatusOK, header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, body: []byte(body)}
}

// act does what the request asks for. The codes are those of
// reference-codes-payment-action-result-code.
func (a *twoctwopAPI) act(action twoctwopAction) answer {
	t := a.byNumber[tradeKey{twoctwopName, action.InvoiceNo}]
	refuse := func(code, description string) answer { return a.result(action, code, description)() }
	switch {
	case action.Version == "" || action.ActionAmount == "":
		return refuse("10", "Missing Compulsory Values")
	case action.MerchantID != a.options.Keys.TwoCTwoPMerchantID:
		return refuse("14", "Invalid merchant ID.")
	case action.InvoiceNo == "":
		return refuse("15", "Invalid invoice number.")
	case t == nil:
		return refuse("16", "Requested transaction doesn't exist.")
	}
	amount, err := twoctwopAmount(action.ActionAmount, t.currency)
	if err != nil {
		return refuse("18", "Invalid Action Amount.")
	}
	switch action.ProcessType {
	case twoctwopVoid:
		return a.void(t, action)
	case twoctwopRefunding:
		return a.refund(t, action, amount.Amount)
	case twoctwopRefundStatus:
		return a.sealed(action, a.told(t, a.records(t)))
	default:
		return a.sealed(action, a.told(t, nil))
	}
}

// status is what has become of a transaction
// (response-code-payment-maintenance-status-code).
func (a *twoctwopAPI) status(t *trade) string {
	switch {
	case a.voided[t] || t.status == closed:
		return "V"
	case t.status == waiting:
		return "AP"
	case t.refunded() > 0:
		return "RF"
	case a.options.Unsettled:
		return "A"
	default:
		return "S"
	}
}

func (a *twoctwopAPI) told(t *trade, refunds *twoctwopRefundList) twoctwopResult {
	return twoctwopResult{
		RespCode: "00", RespDesc: "Success", Amount: twoctwopAmountText(t.amount, t.currency), Status: a.status(t),
		ReferenceNo: t.tradeNo, TransactionDateTime: twoctwopTime(orCreated(t, t.paidAt)), Refunds: refunds,
	}
}

func twoctwopTime(t time.Time) string { return t.In(twoctwopZone).Format("20060102150405") }

// records lists the refunds of a transaction. A void is none.
func (a *twoctwopAPI) records(t *trade) *twoctwopRefundList {
	list := &twoctwopRefundList{}
	if a.voided[t] {
		return list
	}
	for _, made := range t.refunds {
		list.Refund = append(list.Refund, twoctwopRefundRecord{
			Amount: twoctwopAmountText(made.amount, t.currency), Status: "RF", ReferenceNo: made.ownNumber,
			DateTime: twoctwopTime(made.at), twoctwopOwn: a.own[made.ownNumber],
		})
	}
	return list
}

// void takes back a payment that is not settled yet, or ends an unpaid one.
func (a *twoctwopAPI) void(t *trade, action twoctwopAction) answer {
	refuse := func(code, description string) answer { return a.result(action, code, description)() }
	switch {
	case t.status == closed || a.voided[t]:
		return refuse("29", "Transaction is already voided.")
	case t.status == waiting:
		a.turnAway(t)
	case !a.options.Unsettled:
		return refuse("39", "Transaction is already settled.")
	default:
		a.giveBack(t, refund{ownNumber: a.nextNumber(), amount: t.amount})
		a.voided[t] = true
	}
	return a.sealed(action, a.told(t, nil))
}

// refund gives money of a settled payment back. The request that repeats an
// idempotencyID gets the first answer again.
func (a *twoctwopAPI) refund(t *trade, action twoctwopAction, amount int64) answer {
	refuse := func(code, description string) answer { return a.result(action, code, description)() }
	if action.IdempotencyID != "" {
		if before, ok := t.findRefund(action.IdempotencyID); ok {
			if before.amount != amount {
				return refuse("11", "Request validation failed.")
			}
			return a.refundTold(t, action, before)
		}
	}
	switch {
	case t.status != paid || a.voided[t] || a.options.Unsettled:
		return refuse("12", "Transaction status is not valid to perform your action.")
	case amount < 1:
		return refuse("18", "Invalid Action Amount.")
	case t.refunded()+amount > t.amount:
		return refuse("40", "Refund amount is more than transaction amount.")
	}
	number := a.nextNumber()
	a.own[number] = action.twoctwopOwn
	return a.refundTold(t, action, a.giveBack(t, refund{number: action.IdempotencyID, ownNumber: number, amount: amount}))
}

func (a *twoctwopAPI) refundTold(t *trade, action twoctwopAction, made refund) answer {
	told := a.told(t, nil)
	told.Amount, told.RefundReferenceNo = twoctwopAmountText(made.amount, t.currency), made.ownNumber
	return a.sealed(action, told)
}
