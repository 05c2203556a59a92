package pspsim_test

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"encoding/xml"
	"net/http"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pspsim"
)

const actionPath = "/2c2p/PaymentAction/2.0/action"

type maintenanceAnswer struct {
	XMLName           xml.Name `xml:"PaymentProcessResponse"`
	RespCode          string   `xml:"respCode"`
	ProcessType       string   `xml:"processType"`
	InvoiceNo         string   `xml:"invoiceNo"`
	Amount            string   `xml:"amount"`
	Status            string   `xml:"status"`
	RefundReferenceNo string   `xml:"refundReferenceNo"`
	Refunds           []struct {
		Amount       string `xml:"amount"`
		Status       string `xml:"status"`
		ReferenceNo  string `xml:"referenceNo"`
		UserDefined1 string `xml:"userDefined1"`
	} `xml:"refundList>refund"`
}

// algorithms are how a maintenance request is sealed.
type algorithms struct {
	sign    jose.SignatureAlgorithm
	key     jose.KeyAlgorithm
	content jose.ContentEncryption
}

var documented = algorithms{jose.PS256, jose.RSA_OAEP, jose.A256GCM}

func privateKey(t *testing.T, text string) *rsa.PrivateKey {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	require.NotNil(t, block)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	return key.(*rsa.PrivateKey)
}

func publicKey(t *testing.T, text string) *rsa.PublicKey {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	require.NotNil(t, block)
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	require.NoError(t, err)
	return key.(*rsa.PublicKey)
}

// sealed is a request as a merchant with the given keys sends it.
func sealed(t *testing.T, keys *pspsim.Keys, by algorithms, text string) string {
	t.Helper()
	encrypter, err := jose.NewEncrypter(by.content, jose.Recipient{Algorithm: by.key, Key: publicKey(t, keys.TwoCTwoPPublicKey)}, nil)
	require.NoError(t, err)
	inner, err := encrypter.Encrypt([]byte(text))
	require.NoError(t, err)
	compact, err := inner.CompactSerialize()
	require.NoError(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: by.sign, Key: privateKey(t, keys.TwoCTwoPMerchantPrivateKey)}, nil)
	require.NoError(t, err)
	outer, err := signer.Sign([]byte(compact))
	require.NoError(t, err)
	body, err := outer.CompactSerialize()
	require.NoError(t, err)
	return body
}

// unsealed reads an answer, which has to verify and decrypt.
func (f *fixture) unsealed(body string) maintenanceAnswer {
	f.t.Helper()
	outer, err := jose.ParseSignedCompact(body, []jose.SignatureAlgorithm{jose.PS256})
	require.NoError(f.t, err, body)
	inner, err := outer.Verify(publicKey(f.t, f.keys.TwoCTwoPPublicKey))
	require.NoError(f.t, err)
	sealed, err := jose.ParseEncryptedCompact(string(inner), []jose.KeyAlgorithm{jose.RSA_OAEP}, []jose.ContentEncryption{jose.A256GCM})
	require.NoError(f.t, err)
	plain, err := sealed.Decrypt(privateKey(f.t, f.keys.TwoCTwoPMerchantPrivateKey))
	require.NoError(f.t, err)
	var told maintenanceAnswer
	require.NoError(f.t, xml.Unmarshal(plain, &told), "%s", plain)
	return told
}

func (f *fixture) maintain(text string) maintenanceAnswer {
	f.t.Helper()
	_, _, answer := f.send(http.MethodPost, actionPath, nil, sealed(f.t, f.keys, documented, text))
	return f.unsealed(answer)
}

// action writes a request with the elements of the documentation's sample, and
// more.
func (f *fixture) action(kind, invoiceNo, amount, more string) maintenanceAnswer {
	f.t.Helper()
	return f.maintain("<PaymentProcessRequest><version>3.8</version><merchantID>" + f.keys.TwoCTwoPMerchantID + "</merchantID>" +
		"<invoiceNo>" + invoiceNo + "</invoiceNo><actionAmount>" + amount + "</actionAmount>" +
		"<processType>" + kind + "</processType>" + more + "</PaymentProcessRequest>")
}

func TestTwoCTwoPRefunds(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{Quiet: true})
	f.twoctwop(tokenPath, f.invoice("order1"))
	require.Equal(t, "S", f.action("I", "order1", "10.00", "").Status)
	require.Empty(t, f.action("RS", "order1", "3.00", "").Refunds)

	first := f.action("R", "order1", "3.00", "<idempotencyID>r1</idempotencyID><userDefined1>mine</userDefined1>")
	require.Equal(t, "00", first.RespCode)
	require.Equal(t, "RF", first.Status)
	require.Equal(t, "3.00", first.Amount)
	require.NotEmpty(t, first.RefundReferenceNo)
	require.Equal(t, first, f.action("R", "order1", "3.00", "<idempotencyID>r1</idempotencyID>"), "one id is one refund")
	require.Equal(t, "11", f.action("R", "order1", "2.00", "<idempotencyID>r1</idempotencyID>").RespCode)
	require.Equal(t, "00", f.action("R", "order1", "3.00", "").RespCode, "without an id each request is a refund")
	require.Equal(t, "00", f.action("R", "order1", "3.00", "").RespCode)
	require.Equal(t, "40", f.action("R", "order1", "1.01", "").RespCode)
	require.Equal(t, "18", f.action("R", "order1", "0.00", "").RespCode)
	require.Equal(t, []string{"charge 1000 SGD", "refund 300 SGD", "refund 300 SGD", "refund 300 SGD"}, f.moved("2c2p", "order1"))

	listed := f.action("RS", "order1", "3.00", "")
	require.Len(t, listed.Refunds, 3)
	require.Equal(t, "mine", listed.Refunds[0].UserDefined1)
	require.Equal(t, first.RefundReferenceNo, listed.Refunds[0].ReferenceNo)
	require.Equal(t, "RF", listed.Refunds[0].Status)
	require.Empty(t, listed.Refunds[1].UserDefined1)
	require.Equal(t, "0000", f.inquire("order1")["respCode"])
	require.Equal(t, "00", f.action("R", "order1", "1.00", "").RespCode)
	require.Equal(t, "4120", f.inquire("order1")["respCode"])
	require.Equal(t, "39", f.action("V", "order1", "10.00", "").RespCode)
}

func TestTwoCTwoPVoid(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{Quiet: true, Unsettled: true})
	f.twoctwop(tokenPath, f.invoice("order1"))
	require.Equal(t, "A", f.action("I", "order1", "10.00", "").Status)
	require.Equal(t, "12", f.action("R", "order1", "10.00", "").RespCode, "only what is settled is refunded")
	voided := f.action("V", "order1", "10.00", "")
	require.Equal(t, "00", voided.RespCode)
	require.Equal(t, "V", voided.Status)
	require.Equal(t, "29", f.action("V", "order1", "10.00", "").RespCode)
	require.Equal(t, []string{"charge 1000 SGD", "refund 1000 SGD"}, f.moved("2c2p", "order1"))
	require.Equal(t, "0003", f.inquire("order1")["respCode"])
	status := f.action("RS", "order1", "10.00", "")
	require.Equal(t, "V", status.Status)
	require.Empty(t, status.Refunds)

	manual := setup(t, pspsim.Options{Quiet: true, ManualBuyer: true})
	manual.twoctwop(tokenPath, manual.invoice("order1"))
	require.Equal(t, "AP", manual.action("I", "order1", "10.00", "").Status)
	require.Equal(t, "12", manual.action("R", "order1", "10.00", "").RespCode)
	require.Equal(t, "V", manual.action("V", "order1", "10.00", "").Status)
	require.Empty(t, manual.sim.Ledger())
}

func TestTwoCTwoPMaintenanceRefusals(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{Quiet: true})
	f.twoctwop(tokenPath, f.invoice("order1"))
	require.Equal(t, "16", f.action("R", "order2", "1.00", "").RespCode)
	require.Equal(t, "15", f.action("R", "", "1.00", "").RespCode)
	require.Equal(t, "18", f.action("R", "order1", "1.001", "").RespCode)
	require.Equal(t, "10", f.action("R", "order1", "", "").RespCode)
	require.Equal(t, "17", f.action("X", "order1", "1.00", "").RespCode)
	require.Equal(t, "14", f.maintain("<PaymentProcessRequest><version>3.8</version><merchantID>JT99</merchantID>"+
		"<invoiceNo>order1</invoiceNo><actionAmount>1.00</actionAmount><processType>R</processType></PaymentProcessRequest>").RespCode)
	require.Equal(t, "96", f.maintain("no XML").RespCode)

	text := "<PaymentProcessRequest><version>3.8</version><merchantID>JT01</merchantID><invoiceNo>order1</invoiceNo>" +
		"<actionAmount>1.00</actionAmount><processType>R</processType></PaymentProcessRequest>"
	for name, body := range map[string]string{
		"other keys":              sealed(t, keysOf(t, otherKeys), documented, text),
		"another signature":       sealed(t, f.keys, algorithms{jose.RS256, jose.RSA_OAEP, jose.A256GCM}, text),
		"another key encryption":  sealed(t, f.keys, algorithms{jose.PS256, jose.RSA_OAEP_256, jose.A256GCM}, text),
		"another encryption":      sealed(t, f.keys, algorithms{jose.PS256, jose.RSA_OAEP, jose.A128GCM}, text),
		"not encrypted or signed": text,
	} {
		_, _, answer := f.send(http.MethodPost, actionPath, nil, body)
		require.Equal(t, "96", f.unsealed(answer).RespCode, name)
	}
	require.Len(t, f.sim.Ledger(), 1)
}

func TestTwoCTwoPMaintenanceFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault, code string
		moved       int
	}{
		{"error_before", "99", 0}, {"error_after", "99", 1}, {"decline", "44", 0}, {"delay", "00", 1},
	} {
		f := setup(t, pspsim.Options{Quiet: true})
		f.twoctwop(tokenPath, f.invoice("order1"))
		f.arm("2c2p", "refund", test.fault)
		require.Equal(t, test.code, f.action("R", "order1", "3.00", "<idempotencyID>r1</idempotencyID>").RespCode, test.fault)
		require.Len(t, f.moved("2c2p", "order1"), 1+test.moved, test.fault)
	}
	f := setup(t, pspsim.Options{Quiet: true})
	f.twoctwop(tokenPath, f.invoice("order1"))
	f.arm("2c2p", "query", "error_before")
	require.Equal(t, "99", f.action("RS", "order1", "3.00", "").RespCode, "a question about refunds is a query")
	require.Equal(t, map[string]int{"2c2p/charge": 1, "2c2p/query": 1}, f.sim.Requests())
}
