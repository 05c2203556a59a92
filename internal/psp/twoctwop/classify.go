package twoctwop

import (
	"errors"

	"github.com/payonce/payonce/internal/psp"
)

// Codes that need more than a verdict.
const (
	codeSuccess = "0000"
	// codeExistingInvoice and codeDuplicatedInvoice say that the invoiceNo is
	// there already.
	codeExistingInvoice   = "9015"
	codeDuplicatedInvoice = "5005"
	// codeCancelled and codeExpired close a payment that nobody made.
	codeCancelled = "0003"
	codeExpired   = "5009"
	// codeSettled is a payment whose money the acquirer has.
	codeSettled = "4110"

	// The result codes of payment maintenance have two digits.
	resultSuccess         = "00"
	resultStatusInvalid   = "12"
	resultNoTransaction   = "16"
	resultRefundForbidden = "41"
)

// verdicts are what a code means: as the answer to a request for a payment
// token, as what an inquiry or a notification tells of a payment, and as the
// answer to a refund or void. Zero, which is in doubt, for what it is not
// documented for.
type verdicts struct{ token, payment, refund psp.Verdict }

// codes maps each response code to what it means. A code that does not stand
// here is in doubt. docs/psp/2c2p.md names the page of each.
var codes = map[string]verdicts{
	codeSuccess: {token: psp.Pending, payment: psp.Succeeded},

	// Not known to 2C2P itself, or said of money that went astray: ask, or let
	// a person look.
	"0999": {},
	"2000": {},
	"2003": {},
	"4000": {},
	"4006": {},
	"4008": {},
	"4010": {},
	"4011": {},
	"4016": {},
	"4020": {},
	"4021": {},
	"4022": {},
	"4032": {},
	"4045": {},
	"4046": {},
	"4047": {},
	"4048": {},
	"4050": {},
	"4068": {},
	"4090": {},
	"4091": {},
	"4094": {},
	"4096": {},
	"4130": {},
	"4131": {},
	"4132": {},
	"4140": {},
	"5002": {},
	"5003": {},
	"5015": {},
	"5016": {},
	"5017": {},
	"5019": {},
	"5998": {},
	"9038": {},
	"9040": {},
	"9041": {},
	"9990": {},
	"9991": {},
	"9992": {},
	"9993": {},
	"9994": {},
	"9995": {},
	"9996": {},
	"9997": {},
	"9998": {},
	"9999": {},

	// The number is taken, and its payment may be made: ask.
	codeDuplicatedInvoice: {},
	codeExistingInvoice:   {},

	// The buyer has still to pay, or the payment is on its way.
	"0001": {payment: psp.Pending},
	"1000": {payment: psp.Pending},
	"1001": {payment: psp.Pending},
	"1002": {payment: psp.Pending},
	"1003": {payment: psp.Pending},
	"1004": {payment: psp.Pending},
	"1005": {payment: psp.Pending},
	"2001": {payment: psp.Pending},
	"4009": {payment: psp.Pending},

	// Paid, whatever happened since.
	codeSettled: {payment: psp.Succeeded},
	"4120":      {payment: psp.Succeeded},
	"4121":      {payment: psp.Succeeded},
	"4122":      {payment: psp.Succeeded},

	"2002": {payment: psp.NotFound},

	// Payments that were refused or given up: no money moved.
	codeCancelled: {payment: psp.Terminal},
	"0004":        {payment: psp.Terminal},
	"4001":        {payment: psp.Terminal},
	"4002":        {payment: psp.Terminal},
	"4003":        {payment: psp.Terminal},
	"4004":        {payment: psp.Terminal},
	"4005":        {payment: psp.Terminal},
	"4007":        {payment: psp.Terminal},
	"4012":        {payment: psp.Terminal},
	"4013":        {payment: psp.Terminal},
	"4014":        {payment: psp.Terminal},
	"4015":        {payment: psp.Terminal},
	"4017":        {payment: psp.Terminal},
	"4018":        {payment: psp.Terminal},
	"4019":        {payment: psp.Terminal},
	"4023":        {payment: psp.Terminal},
	"4030":        {payment: psp.Terminal},
	"4031":        {payment: psp.Terminal},
	"4033":        {payment: psp.Terminal},
	"4034":        {payment: psp.Terminal},
	"4035":        {payment: psp.Terminal},
	"4036":        {payment: psp.Terminal},
	"4037":        {payment: psp.Terminal},
	"4038":        {payment: psp.Terminal},
	"4039":        {payment: psp.Terminal},
	"4040":        {payment: psp.Terminal},
	"4041":        {payment: psp.Terminal},
	"4042":        {payment: psp.Terminal},
	"4043":        {payment: psp.Terminal},
	"4044":        {payment: psp.Terminal},
	"4051":        {payment: psp.Terminal},
	"4052":        {payment: psp.Terminal},
	"4053":        {payment: psp.Terminal},
	"4054":        {payment: psp.Terminal},
	"4055":        {payment: psp.Terminal},
	"4056":        {payment: psp.Terminal},
	"4057":        {payment: psp.Terminal},
	"4058":        {payment: psp.Terminal},
	"4059":        {payment: psp.Terminal},
	"4060":        {payment: psp.Terminal},
	"4061":        {payment: psp.Terminal},
	"4062":        {payment: psp.Terminal},
	"4063":        {payment: psp.Terminal},
	"4064":        {payment: psp.Terminal},
	"4065":        {payment: psp.Terminal},
	"4066":        {payment: psp.Terminal},
	"4067":        {payment: psp.Terminal},
	"4070":        {payment: psp.Terminal},
	"4072":        {payment: psp.Terminal},
	"4073":        {payment: psp.Terminal},
	"4075":        {payment: psp.Terminal},
	"4076":        {payment: psp.Terminal},
	"4077":        {payment: psp.Terminal},
	"4078":        {payment: psp.Terminal},
	"4080":        {payment: psp.Terminal},
	"4081":        {payment: psp.Terminal},
	"4092":        {payment: psp.Terminal},
	"4093":        {payment: psp.Terminal},
	"4099":        {payment: psp.Terminal},
	"4202":        {payment: psp.Terminal},
	"5004":        {payment: psp.Terminal},
	"5006":        {payment: psp.Terminal},
	"5007":        {payment: psp.Terminal},
	"5008":        {payment: psp.Terminal},
	codeExpired:   {payment: psp.Terminal},
	"5010":        {payment: psp.Terminal},
	"5011":        {payment: psp.Terminal},
	"5012":        {payment: psp.Terminal},
	"5013":        {payment: psp.Terminal},
	"5014":        {payment: psp.Terminal},
	"6012":        {payment: psp.Terminal},
	"7012":        {payment: psp.Terminal},
	"9020":        {payment: psp.Terminal},
	"9035":        {payment: psp.Terminal},

	// Requests for a payment token that are refused for good.
	"9004": {token: psp.Terminal},
	"9005": {token: psp.Terminal},
	"9006": {token: psp.Terminal},
	"9008": {token: psp.Terminal},
	"9009": {token: psp.Terminal},
	"9010": {token: psp.Terminal},
	"9012": {token: psp.Terminal},
	"9013": {token: psp.Terminal},
	"9014": {token: psp.Terminal},
	"9057": {token: psp.Terminal},
	"9058": {token: psp.Terminal},
	"9059": {token: psp.Terminal},
	"9060": {token: psp.Terminal},
	"9078": {token: psp.Terminal},
	"9080": {token: psp.Terminal},
	"9088": {token: psp.Terminal},
	"9089": {token: psp.Terminal},
	"9090": {token: psp.Terminal},
	"9091": {token: psp.Terminal},
	"9092": {token: psp.Terminal},
	"9093": {token: psp.Terminal},
	"9094": {token: psp.Terminal},
	"9095": {token: psp.Terminal},
	"9100": {token: psp.Terminal},
	"9101": {token: psp.Terminal},
	"9102": {token: psp.Terminal},
	"9103": {token: psp.Terminal},
	"9104": {token: psp.Terminal},
	"9105": {token: psp.Terminal},
	"9106": {token: psp.Terminal},
	"9107": {token: psp.Terminal},
	"9108": {token: psp.Terminal},
	"9109": {token: psp.Terminal},
	"9110": {token: psp.Terminal},
	"9202": {token: psp.Terminal},
	"9901": {token: psp.Terminal},
	"9902": {token: psp.Terminal},
	"9903": {token: psp.Terminal},
	"9904": {token: psp.Terminal},
	"9905": {token: psp.Terminal},
	"9906": {token: psp.Terminal},
	"9907": {token: psp.Terminal},
	"9908": {token: psp.Terminal},
	"9909": {token: psp.Terminal},

	// Refused at the gate, for our configuration's sake: no payment was
	// touched, and a later try may pass.
	"6101": {token: psp.Transient},
	"6102": {token: psp.Transient},
	"6103": {token: psp.Transient},
	"6104": {token: psp.Transient},
	"6107": {token: psp.Transient},
	"9007": {token: psp.Transient},
	"9037": {token: psp.Transient},
	"9039": {token: psp.Transient},
	"9042": {token: psp.Transient},
	"9900": {token: psp.Transient},

	// Payment maintenance: done, on its way, or not known.
	resultSuccess: {refund: psp.Succeeded},
	"42":          {refund: psp.Pending},
	"29":          {},
	"51":          {},
	"53":          {},
	"95":          {},
	"98":          {},
	"99":          {},

	// Refunds and voids that are refused for good.
	"02":                  {refund: psp.Terminal},
	"10":                  {refund: psp.Terminal},
	"11":                  {refund: psp.Terminal},
	resultStatusInvalid:   {refund: psp.Terminal},
	"15":                  {refund: psp.Terminal},
	resultNoTransaction:   {refund: psp.Terminal},
	"17":                  {refund: psp.Terminal},
	"18":                  {refund: psp.Terminal},
	"21":                  {refund: psp.Terminal},
	"25":                  {refund: psp.Terminal},
	"30":                  {refund: psp.Terminal},
	"39":                  {refund: psp.Terminal},
	"40":                  {refund: psp.Terminal},
	resultRefundForbidden: {refund: psp.Terminal},
	"43":                  {refund: psp.Terminal},
	"44":                  {refund: psp.Terminal},
	"45":                  {refund: psp.Terminal},
	"46":                  {refund: psp.Terminal},
	"47":                  {refund: psp.Terminal},
	"48":                  {refund: psp.Terminal},
	"54":                  {refund: psp.Terminal},
	"97":                  {refund: psp.Terminal},

	// Refused at the gate of payment maintenance.
	"03": {refund: psp.Transient},
	"13": {refund: psp.Transient},
	"14": {refund: psp.Transient},
	"96": {refund: psp.Transient},
}

// statuses is what becomes of a refund, or of a payment that was voided.
var statuses = map[string]psp.Verdict{
	"RF":             psp.Succeeded,
	"V":              psp.Succeeded,
	"RP":             psp.Pending,
	"VP":             psp.Pending,
	"REFUND_PENDING": psp.Pending,
	"RFF":            psp.Terminal,
	"RR":             psp.Terminal,
	"RR1":            psp.Terminal,
	"RR2":            psp.Terminal,
	"RR3":            psp.Terminal,
}

// operation is what an answer answers.
type operation int

const (
	charging operation = iota
	asking
	refunding
	askingRefund
)

// classified judges a code. A refused question about a refund tells nothing
// about the refund, but that there is no payment that it could be of.
func classified(op operation, code, description string) psp.Result {
	result := psp.Result{Code: code, Message: description}
	known := codes[code]
	switch op {
	case charging:
		result.Verdict = known.token
	case asking:
		result.Verdict = known.payment
	case refunding:
		result.Verdict = known.refund
	case askingRefund:
		if code == resultNoTransaction {
			result.Verdict = psp.NotFound
		}
	}
	return result
}

// failed judges an error instead of an answer. A refusal without 2C2P's
// signature is believed only where it is one at the gate: 2C2P cannot sign for
// a merchant that it could not tell.
func failed(op operation, err error) psp.Result {
	var unsigned *errUnsigned
	switch {
	case errors.As(err, &unsigned) && op == charging:
		result := classified(op, unsigned.code, unsigned.description)
		if result.Verdict != psp.Transient {
			result.Verdict = psp.InDoubt
		}
		return result
	case errors.Is(err, psp.ErrUnsent) && (op == charging || op == refunding):
		return psp.Result{Verdict: psp.Transient, Err: err, Message: "2C2P could not be reached"}
	case errors.As(err, &unsigned):
		return psp.Result{Code: unsigned.code, Message: unsigned.description, Err: err}
	}
	return psp.Result{Err: err}
}
