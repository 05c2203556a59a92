package stripe

import (
	"errors"
	"fmt"
	"net/http"

	sdk "github.com/stripe/stripe-go/v82"

	"github.com/payonce/payonce/internal/psp"
)

// Codes that need more than a verdict.
const (
	codeIdempotency     = string(sdk.ErrorTypeIdempotency)
	codeAlreadyRefunded = string(sdk.ErrorCodeChargeAlreadyRefunded)
	codeKeyInUse        = string(sdk.ErrorCodeIdempotencyKeyInUse)
	codeUnexpectedState = string(sdk.ErrorCodePaymentIntentUnexpectedState)
)

// verdicts are what an error means for the money of a charge and of a refund;
// zero, which is in doubt, for the one that it is not documented for.
type verdicts struct{ charge, refund psp.Verdict }

var (
	refused    = verdicts{charge: psp.Terminal}
	notGiven   = verdicts{refund: psp.Terminal}
	bothRefuse = verdicts{charge: psp.Terminal, refund: psp.Terminal}
	atTheGate  = verdicts{charge: psp.Transient, refund: psp.Transient}
)

// codes maps each decline code, code and type of error to what it means. One
// that does not stand here is in doubt. docs/psp/stripe.md names the page of
// each.
var codes = map[string]verdicts{
	// Types, for errors without a code (docs.stripe.com/api/errors).
	string(sdk.ErrorTypeAPI):            {},
	string(sdk.ErrorTypeCard):           refused,
	codeIdempotency:                     bothRefuse,
	string(sdk.ErrorTypeInvalidRequest): bothRefuse,

	// Another request has the key or the object: ask what becomes of it.
	codeKeyInUse:                     {},
	string(sdk.ErrorCodeLockTimeout): {},
	// The intent is past being confirmed, and may be paid: ask.
	codeUnexpectedState: {},

	// Refused at the gate, before anything ran.
	string(sdk.ErrorCodeRateLimit):               atTheGate,
	string(sdk.ErrorCodeAPIKeyExpired):           atTheGate,
	string(sdk.ErrorCodePlatformAPIKeyExpired):   atTheGate,
	string(sdk.ErrorCodeSecretKeyRequired):       atTheGate,
	string(sdk.ErrorCodeTLSVersionUnsupported):   atTheGate,
	string(sdk.ErrorCodeTestmodeChargesOnly):     atTheGate,
	string(sdk.ErrorCodeLivemodeMismatch):        atTheGate,
	string(sdk.ErrorCodeAccountInvalid):          atTheGate,
	string(sdk.ErrorCodePlatformAccountRequired): atTheGate,

	// Parameters that are not valid (docs.stripe.com/error-codes).
	string(sdk.ErrorCodeResourceMissing):                        bothRefuse,
	string(sdk.ErrorCodeParameterInvalidEmpty):                  bothRefuse,
	string(sdk.ErrorCodeParameterInvalidInteger):                bothRefuse,
	string(sdk.ErrorCodeParameterInvalidStringBlank):            bothRefuse,
	string(sdk.ErrorCodeParameterInvalidStringEmpty):            bothRefuse,
	string(sdk.ErrorCodeParameterMissing):                       bothRefuse,
	string(sdk.ErrorCodeParameterUnknown):                       bothRefuse,
	string(sdk.ErrorCodeParametersExclusive):                    bothRefuse,
	string(sdk.ErrorCodeAmountTooLarge):                         bothRefuse,
	string(sdk.ErrorCodeAmountTooSmall):                         bothRefuse,
	string(sdk.ErrorCodeInvalidChargeAmount):                    bothRefuse,
	string(sdk.ErrorCodeInvalidCharacters):                      bothRefuse,
	string(sdk.ErrorCodeEmailInvalid):                           refused,
	string(sdk.ErrorCodeURLInvalid):                             refused,
	string(sdk.ErrorCodePaymentIntentIncompatiblePaymentMethod): refused,
	string(sdk.ErrorCodePaymentIntentInvalidParameter):          refused,
	string(sdk.ErrorCodePaymentMethodUnactivated):               refused,
	string(sdk.ErrorCodePaymentMethodUnexpectedState):           refused,
	string(sdk.ErrorCodePaymentMethodCurrencyMismatch):          refused,
	string(sdk.ErrorCodePaymentMethodInvalidParameter):          refused,
	string(sdk.ErrorCodePaymentMethodUnsupportedType):           refused,
	string(sdk.ErrorCodePaymentIntentAuthenticationFailure):     refused,
	string(sdk.ErrorCodePaymentIntentPaymentAttemptFailed):      refused,
	string(sdk.ErrorCodePaymentMethodProviderDecline):           refused,
	string(sdk.ErrorCodePaymentMethodNotAvailable):              refused,
	string(sdk.ErrorCodeCountryUnsupported):                     refused,
	string(sdk.ErrorCodePaymentIntentActionRequired):            refused,

	// Refunds that are refused for good (docs.stripe.com/error-codes).
	codeAlreadyRefunded:                        notGiven,
	string(sdk.ErrorCodeChargeDisputed):        notGiven,
	string(sdk.ErrorCodeChargeNotRefundable):   notGiven,
	string(sdk.ErrorCodeRefundDisputedPayment): notGiven,

	// Cards that are refused (docs.stripe.com/error-codes#card-declined).
	string(sdk.ErrorCodeCardDeclined):                 refused,
	string(sdk.ErrorCodeAuthenticationRequired):       refused,
	string(sdk.ErrorCodeExpiredCard):                  refused,
	string(sdk.ErrorCodeIncorrectCVC):                 refused,
	string(sdk.ErrorCodeIncorrectNumber):              refused,
	string(sdk.ErrorCodeIncorrectZip):                 refused,
	string(sdk.ErrorCodeIncorrectAddress):             refused,
	string(sdk.ErrorCodeInsufficientFunds):            refused,
	string(sdk.ErrorCodeInvalidCVC):                   refused,
	string(sdk.ErrorCodeInvalidExpiryMonth):           refused,
	string(sdk.ErrorCodeInvalidExpiryYear):            refused,
	string(sdk.ErrorCodeInvalidNumber):                refused,
	string(sdk.ErrorCodeInvalidCardType):              refused,
	string(sdk.ErrorCodeProcessingError):              refused,
	string(sdk.ErrorCodePostalCodeInvalid):            refused,
	string(sdk.ErrorCodeCardDeclineRateLimitExceeded): refused,

	// Why the issuer refused (docs.stripe.com/declines/codes).
	string(sdk.DeclineCodeApproveWithID):                  refused,
	string(sdk.DeclineCodeCallIssuer):                     refused,
	string(sdk.DeclineCodeCardNotSupported):               refused,
	string(sdk.DeclineCodeCardVelocityExceeded):           refused,
	string(sdk.DeclineCodeCurrencyNotSupported):           refused,
	string(sdk.DeclineCodeDoNotHonor):                     refused,
	string(sdk.DeclineCodeDoNotTryAgain):                  refused,
	string(sdk.DeclineCodeDuplicateTransaction):           refused,
	string(sdk.DeclineCodeFraudulent):                     refused,
	string(sdk.DeclineCodeGenericDecline):                 refused,
	string(sdk.DeclineCodeIncorrectPIN):                   refused,
	string(sdk.DeclineCodeInvalidAccount):                 refused,
	string(sdk.DeclineCodeInvalidAmount):                  refused,
	string(sdk.DeclineCodeInvalidPIN):                     refused,
	string(sdk.DeclineCodeIssuerNotAvailable):             refused,
	string(sdk.DeclineCodeLostCard):                       refused,
	string(sdk.DeclineCodeMerchantBlacklist):              refused,
	string(sdk.DeclineCodeNewAccountInformationAvailable): refused,
	string(sdk.DeclineCodeNoActionTaken):                  refused,
	string(sdk.DeclineCodeNotPermitted):                   refused,
	string(sdk.DeclineCodeOfflinePINRequired):             refused,
	string(sdk.DeclineCodeOnlineOrOfflinePINRequired):     refused,
	string(sdk.DeclineCodePickupCard):                     refused,
	string(sdk.DeclineCodePINTryExceeded):                 refused,
	string(sdk.DeclineCodeReenterTransaction):             refused,
	string(sdk.DeclineCodeRestrictedCard):                 refused,
	string(sdk.DeclineCodeRevocationOfAllAuthorizations):  refused,
	string(sdk.DeclineCodeRevocationOfAuthorization):      refused,
	string(sdk.DeclineCodeSecurityViolation):              refused,
	string(sdk.DeclineCodeServiceNotAllowed):              refused,
	string(sdk.DeclineCodeStolenCard):                     refused,
	string(sdk.DeclineCodeStopPaymentOrder):               refused,
	string(sdk.DeclineCodeTestModeDecline):                refused,
	string(sdk.DeclineCodeTransactionNotAllowed):          refused,
	string(sdk.DeclineCodeTryAgainLater):                  refused,
	string(sdk.DeclineCodeWithdrawalCountLimitExceeded):   refused,
}

// statuses judge an error by its HTTP status where that says more than a code
// that is missing (docs.stripe.com/api/errors).
var statuses = map[int]verdicts{
	http.StatusUnauthorized:    atTheGate,
	http.StatusForbidden:       atTheGate,
	http.StatusTooManyRequests: atTheGate,
}

// operation is what an answer answers.
type operation int

const (
	charging operation = iota
	refunding
	asking
)

func (v verdicts) of(op operation) psp.Verdict {
	switch op {
	case charging:
		return v.charge
	case refunding:
		return v.refund
	case asking:
	}
	return psp.InDoubt
}

// failed judges an error of a call. One of a query tells nothing about the
// money.
func failed(op operation, err error) psp.Result {
	var problem *sdk.Error
	switch {
	case errors.As(err, &problem):
		return classified(op, problem)
	case errors.Is(err, psp.ErrUnsent) && op != asking:
		return psp.Result{Verdict: psp.Transient, Err: err, Message: "Stripe could not be reached"}
	default:
		return psp.Result{Verdict: psp.InDoubt, Err: err}
	}
}

// classified judges an error that Stripe answered with. The error itself may
// contain a client_secret and is not kept.
func classified(op operation, problem *sdk.Error) psp.Result {
	result := psp.Result{Code: codeOf(problem), Message: problem.Msg}
	if problem.HTTPStatusCode >= http.StatusInternalServerError {
		result.Err = fmt.Errorf("stripe: status %d for request %s", problem.HTTPStatusCode, problem.RequestID)
		return result
	}
	result.Verdict = meaning(problem).of(op)
	return result
}

// codeOf is the most specific of the codes.
func codeOf(problem *sdk.Error) string {
	switch {
	case problem.DeclineCode != "":
		return string(problem.DeclineCode)
	case problem.Code != "":
		return string(problem.Code)
	default:
		return string(problem.Type)
	}
}

// meaning is that of the most specific code. Where there is none, the status
// says more than the type. Whatever reason an issuer gives, a card_error is a
// card that was not charged.
func meaning(problem *sdk.Error) verdicts {
	code := codeOf(problem)
	if code == string(problem.Type) {
		if byStatus, ok := statuses[problem.HTTPStatusCode]; ok {
			return byStatus
		}
	}
	if known, ok := codes[code]; ok || problem.Type != sdk.ErrorTypeCard {
		return known
	}
	return codes[string(sdk.ErrorTypeCard)]
}

// neverChanges tells that Stripe has kept a failure of its own under the key,
// and would give it to every repetition for 24 hours
// (docs.stripe.com/error-low-level#idempotency).
func neverChanges(err error) bool {
	var problem *sdk.Error
	return errors.As(err, &problem) && problem.HTTPStatusCode >= http.StatusInternalServerError &&
		problem.LastResponse != nil && replayed(problem.LastResponse)
}

func replayed(response *sdk.APIResponse) bool {
	return response != nil && response.Header.Get("Idempotent-Replayed") == "true"
}
