package pspsim

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/payonce/payonce/internal/money"
)

const stripeName = "stripe"

// stripeVersion is the API version of the simulated account, which answers and
// events have.
const stripeVersion = "2025-08-27.basil"

// The limits of an amount and of a page: docs.stripe.com/currencies and
// docs.stripe.com/api/pagination.
const (
	stripeMaxAmount   = 99_999_999
	stripeMaxKey      = 255
	stripeDefaultPage = 10
	stripeMaxPage     = 100
	maxStripeBytes    = 1 << 20
)

// stripeAPI is Stripe's API v1 for one account.
type stripeAPI struct {
	*Simulator
	keys    stripeKeys
	intents map[string]*stripeIntent // by id; guarded by the simulator's lock
	refunds map[string]stripeParams  // what was asked of a refund, by its id; likewise
}

func newStripe(s *Simulator) *stripeAPI {
	return &stripeAPI{
		Simulator: s, keys: stripeKeys{records: map[string]*stripeRecord{}},
		intents: map[string]*stripeIntent{}, refunds: map[string]stripeParams{},
	}
}

// stripeParams are the parameters of a request.
type stripeParams struct{ url.Values }

func (p stripeParams) metadata() map[string]string {
	found := map[string]string{}
	for name := range p.Values {
		if key, ok := strings.CutPrefix(name, "metadata["); ok {
			found[strings.TrimSuffix(key, "]")] = p.Get(name)
		}
	}
	return found
}

// list is a parameter that is sent as name[], or as name[0], name[1].
func (p stripeParams) list(name string) []string {
	var found []string
	for _, key := range slices.Sorted(maps.Keys(p.Values)) {
		if strings.HasPrefix(key, name+"[") {
			found = append(found, p.Values[key]...)
		}
	}
	return found
}

func (p stripeParams) confirms() bool { return p.Get("confirm") == "true" }

// stripeRequest is a request with the right api key.
type stripeRequest struct {
	stripeParams
	pathID string
}

// stripeEndpoint is one method of the API.
type stripeEndpoint struct {
	op       func(stripeParams) string
	params   []string // the names it knows
	validate func(stripeRequest) *stripeError
	// do executes the request under the simulator's lock. A declined one is
	// refused for good where money would move.
	do func(r stripeRequest, declined bool) answer
}

func stripeOp(op string) func(stripeParams) string { return func(stripeParams) string { return op } }

// stripeCreateOp: an intent is a charge when money moves by it, at once or by
// the buyer who pays with its client_secret; one that the server still has to
// confirm is not.
func stripeCreateOp(p stripeParams) string {
	if p.confirms() || p.forBuyer() {
		return opCharge
	}
	return "create"
}

// forBuyer tells whether the simulated buyer pays the intent with its
// client_secret. That shows in no parameter of Stripe's: the simulated one uses
// the Payment Element, which wants no types of payment methods named
// (docs.stripe.com/payments/accept-a-payment), so that an intent with its own
// types, or with a payment method, waits for the server.
func (p stripeParams) forBuyer() bool {
	return p.Get("payment_method") == "" && p.Get("confirmation_method") != "manual" &&
		len(p.list("payment_method_types")) == 0
}

func (a *stripeAPI) routes(mux *http.ServeMux) {
	page := []string{"limit", "starting_after", "ending_before", "created", "expand"}
	confirm := []string{
		"payment_method", "payment_method_types", "payment_method_options", "return_url", "off_session",
		"error_on_requires_action", "use_stripe_sdk", "receipt_email", "setup_future_usage", "shipping", "expand",
	}
	create := append([]string{
		"amount", "currency", "confirm", "confirmation_method", "capture_method", "automatic_payment_methods", "customer",
		"description", "metadata", "statement_descriptor", "statement_descriptor_suffix",
	}, confirm...)
	none := func(stripeRequest) *stripeError { return nil }
	for pattern, endpoint := range map[string]stripeEndpoint{
		"POST /v1/payment_intents":              {stripeCreateOp, create, a.validateCreate, a.create},
		"GET /v1/payment_intents":               {stripeOp(opQuery), append(page, "customer"), none, a.listIntents},
		"GET /v1/payment_intents/{id}":          {stripeOp(opQuery), []string{"expand", "client_secret"}, none, a.retrieve},
		"POST /v1/payment_intents/{id}/confirm": {stripeOp(opCharge), confirm, none, a.confirm},
		"POST /v1/payment_intents/{id}/cancel":  {stripeOp("cancel"), []string{"cancellation_reason", "expand"}, none, a.cancel},
		"POST /v1/refunds": {stripeOp(opRefund), []string{
			"payment_intent", "charge", "amount", "reason", "metadata", "expand",
		}, a.validateRefund, a.refund},
		"GET /v1/refunds":      {stripeOp(opQuery), append(page, "payment_intent", "charge"), none, a.listRefunds},
		"GET /v1/refunds/{id}": {stripeOp(opQuery), []string{"expand"}, none, a.retrieveRefund},
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /stripe"+path, a.serve(endpoint))
	}
	mux.HandleFunc("/stripe/", func(w http.ResponseWriter, r *http.Request) {
		stripeFailure(http.StatusNotFound, stripeError{
			Type:    "invalid_request_error",
			Message: fmt.Sprintf("Unrecognized request URL (%s: %s).", r.Method, strings.TrimPrefix(r.URL.Path, "/stripe")),
		}).write(w)
	})
}

// serve answers one request: first who asks and with which parameters, then
// the idempotency layer, then the execution.
func (a *stripeAPI) serve(endpoint stripeEndpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := "req_" + randomHex(7)
		w.Header().Set("Request-Id", id)
		r.Body = http.MaxBytesReader(w, r.Body, maxStripeBytes)
		if err := r.ParseForm(); err != nil {
			stripeFailure(http.StatusBadRequest, stripeError{Type: "invalid_request_error", Message: "Invalid request body"}).write(w)
			return
		}
		request := stripeRequest{stripeParams{r.Form}, r.PathValue("id")}
		op := endpoint.op(request.stripeParams)
		a.count(stripeName, op)
		if problem := a.checkKey(r); problem != nil {
			stripeFailure(http.StatusUnauthorized, *problem).write(w)
			return
		}
		if problem := endpoint.check(request); problem != nil {
			stripeFailure(http.StatusBadRequest, *problem).write(w)
			return
		}
		answer, cut := a.once(r, id, func() (answer, bool) {
			return a.perform(call{
				provider: stripeName, op: op, systemError: stripeSystemError,
				refused: func() answer { return a.locked(func() answer { return endpoint.do(request, true) }) },
				do:      func() answer { return endpoint.do(request, false) },
			})
		})
		if cut {
			cutConnection(w)
			return
		}
		answer.write(w)
	}
}

// once executes a request, or gives what its idempotency key came to before.
// GET requests have no such key.
func (a *stripeAPI) once(r *http.Request, id string, execute func() (answer, bool)) (answer, bool) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || r.Method != http.MethodPost {
		return execute()
	}
	if len(key) > stripeMaxKey {
		return stripeFailure(http.StatusBadRequest, stripeError{
			Type: "invalid_request_error", Message: "Idempotency keys can be at most 255 characters long.",
		}), false
	}
	if instead := a.keys.begin(key, r.URL.Path+"?"+r.Form.Encode(), id); instead != nil {
		return *instead, false
	}
	result, cut := execute()
	result.header.Set("Idempotency-Key", key)
	a.keys.finish(key, result)
	return result, cut
}

// checkKey looks for the secret key: docs.stripe.com/api/authentication.
func (a *stripeAPI) checkKey(r *http.Request) *stripeError {
	key, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if user, _, basic := r.BasicAuth(); basic {
		key, bearer = user, true
	}
	switch {
	case !bearer || key == "":
		return &stripeError{Type: "invalid_request_error", Message: "You did not provide an API key."}
	case !hmac.Equal([]byte(key), []byte(a.options.Keys.StripeSecretKey)):
		return &stripeError{Type: "invalid_request_error", Message: "Invalid API Key provided: sk_test_****"}
	}
	return nil
}

// check refuses parameters before anything is executed.
func (e stripeEndpoint) check(r stripeRequest) *stripeError {
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		base, _, _ := strings.Cut(name, "[")
		if !slices.Contains(e.params, base) {
			return &stripeError{
				Type: "invalid_request_error", Code: "parameter_unknown", Param: name, Message: "Received unknown parameter: " + name,
			}
		}
	}
	return e.validate(r)
}

// stripeError is the error of an answer: docs.stripe.com/api/errors.
type stripeError struct {
	Type          string         `json:"type"`
	Code          string         `json:"code,omitempty"`
	DeclineCode   string         `json:"decline_code,omitempty"`
	Message       string         `json:"message"`
	Param         string         `json:"param,omitempty"`
	Charge        string         `json:"charge,omitempty"`
	PaymentIntent map[string]any `json:"payment_intent,omitempty"`
}

func stripeInvalid(param, code, message string) *stripeError {
	return &stripeError{Type: "invalid_request_error", Code: code, Param: param, Message: message}
}

func stripeFailure(status int, problem stripeError) answer {
	return stripeJSON(status, map[string]any{"error": problem})
}

// stripeSystemError asks not to try again: a repetition with the key would get
// the same 500.
func stripeSystemError() answer {
	a := stripeFailure(http.StatusInternalServerError, stripeError{
		Type: "api_error", Message: "An unexpected error occurred. We have been notified of the problem.",
	})
	a.header.Set("Stripe-Should-Retry", "false")
	return a
}

func stripeJSON(status int, content any) answer {
	header := http.Header{"Content-Type": {"application/json"}, "Stripe-Version": {stripeVersion}}
	body, err := json.Marshal(content)
	if err != nil {
		return answer{status: http.StatusInternalServerError, header: header}
	}
	return answer{status: status, header: header, body: body}
}

// stripeMissing is an id that does not exist: 404 in a path, 400 in a parameter.
func stripeMissing(param, what, id string) answer {
	status := http.StatusBadRequest
	if param == "intent" || param == "id" {
		status = http.StatusNotFound
	}
	return stripeFailure(status, *stripeInvalid(param, "resource_missing", fmt.Sprintf("No such %s: '%s'", what, id)))
}

// stripeIntent is a PaymentIntent.
type stripeIntent struct {
	*trade
	stripeParams  // of its creation
	secret        string
	paymentMethod string
	phase         string // its status while it waits
	attempts      int    // declined ones
	lastError     *stripeError
}

// The statuses of an intent: docs.stripe.com/payments/paymentintents/lifecycle.
const (
	stripeNeedsMethod  = "requires_payment_method"
	stripeNeedsConfirm = "requires_confirmation"
	stripeNeedsAction  = "requires_action"
	stripeSucceeded    = "succeeded"
	stripeCanceled     = "canceled"
)

func (i *stripeIntent) intentStatus() string {
	switch i.status {
	case paid:
		return stripeSucceeded
	case closed:
		return stripeCanceled
	default:
		return i.phase
	}
}

// chargeID is the charge of the present attempt, of the last one once it is
// paid.
func (i *stripeIntent) chargeID(attempt int) string {
	return "ch_" + fingerprint(i.number, strconv.Itoa(attempt))[:24]
}

// stripeFactor is how many of Stripe's units one ISO 4217 minor unit has: two
// currencies without decimals are charged with two
// (docs.stripe.com/currencies#special-cases).
func stripeFactor(currency string) int64 {
	if currency == "ISK" || currency == "UGX" {
		return 100
	}
	return 1
}

func (i *stripeIntent) units(minor int64) int64 { return minor * stripeFactor(i.currency) }

// validateCreate refuses what Stripe refuses before it executes.
func (a *stripeAPI) validateCreate(r stripeRequest) *stripeError {
	currency := strings.ToUpper(r.Get("currency"))
	amount, problem := stripeAmount(r.stripeParams, currency)
	switch {
	case !r.Has("amount"):
		return stripeInvalid("amount", "parameter_missing", "Missing required param: amount.")
	case problem != nil:
		return problem
	case !r.Has("currency"):
		return stripeInvalid("currency", "parameter_missing", "Missing required param: currency.")
	case amount > stripeMaxAmount:
		return stripeInvalid("amount", "amount_too_large", "Amount must have no more than 8 digits.")
	case !slices.Contains([]string{"", "automatic", "automatic_async"}, r.Get("capture_method")):
		return stripeInvalid("capture_method", "", "The simulator captures automatically only.")
	}
	if _, err := money.Exponent(currency); err != nil {
		return stripeInvalid("currency", "", "Invalid currency: "+r.Get("currency")+".")
	}
	if r.confirms() && r.Get("return_url") == "" && len(r.list("payment_method_types")) == 0 &&
		r.Get("automatic_payment_methods[allow_redirects]") != "never" {
		return stripeInvalid("", "", "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. "+
			"Because some of these payment methods might redirect your customer off of your page, you must provide a `return_url`.")
	}
	return nil
}

// stripeAmount reads amount, in Stripe's units.
func stripeAmount(p stripeParams, currency string) (int64, *stripeError) {
	amount, err := strconv.ParseInt(p.Get("amount"), 10, 64)
	switch {
	case err != nil:
		return 0, stripeInvalid("amount", "parameter_invalid_integer", "Invalid integer: "+p.Get("amount"))
	case amount < 1:
		return 0, stripeInvalid("amount", "parameter_invalid_integer", "This value must be greater than or equal to 1.")
	case amount%stripeFactor(currency) != 0:
		return 0, stripeInvalid("amount", "", "The decimals of this currency must be 00.")
	case slices.Contains([]string{"BHD", "JOD", "KWD", "OMR", "TND"}, currency) && amount%10 != 0:
		return 0, stripeInvalid("amount", "", "The last digit of a three-decimal amount must be 0.")
	}
	return amount, nil
}

// create opens an intent and, with confirm, charges it. With neither confirm
// nor a payment method, the buyer pays it by its client_secret.
func (a *stripeAPI) create(r stripeRequest, declined bool) answer {
	byBuyer := r.forBuyer() && !r.confirms()
	if byBuyer && declined {
		return stripeFailure(http.StatusBadRequest, *stripeInvalid("", "testmode_charges_only",
			"Your account has not been activated and can only make test charges."))
	}
	if method := r.Get("payment_method"); method != "" && !stripeKnownMethod(method) {
		return stripeMissing("payment_method", "PaymentMethod", method)
	}
	i := a.openIntent(r.stripeParams)
	switch {
	case r.confirms():
		return a.charge(i, r.stripeParams, declined)
	case byBuyer:
		created := a.answerIntent(i, r.stripeParams)
		a.payUnlessManual(i.trade)
		return created
	default:
		return a.answerIntent(i, r.stripeParams)
	}
}

func (a *stripeAPI) openIntent(p stripeParams) *stripeIntent {
	currency := strings.ToUpper(p.Get("currency"))
	amount, _ := strconv.ParseInt(p.Get("amount"), 10, 64) // validated
	number := "pi_" + fingerprint(a.nextNumber(), randomHex(8))[:24]
	i := &stripeIntent{
		trade: &trade{
			tradeKey: tradeKey{stripeName, number}, tradeNo: number,
			outTradeNo: cmp.Or(p.Get("metadata[order_id]"), number),
			amount:     amount / stripeFactor(currency), currency: currency, subject: p.Get("description"),
		},
		stripeParams: p, secret: number + "_secret_" + randomHex(12), paymentMethod: p.Get("payment_method"), phase: stripeNeedsMethod,
	}
	if i.paymentMethod != "" {
		i.phase = stripeNeedsConfirm
	}
	a.open(i.trade)
	a.intents[number] = i
	return i
}

// stripeDeclines are the test PaymentMethods that are declined, by code and
// decline_code: docs.stripe.com/testing#declined-payments.
var stripeDeclines = map[string][2]string{
	"pm_card_visa_chargeDeclined":                      {"card_declined", "generic_decline"},
	"pm_card_visa_chargeDeclinedInsufficientFunds":     {"card_declined", "insufficient_funds"},
	"pm_card_visa_chargeDeclinedLostCard":              {"card_declined", "lost_card"},
	"pm_card_visa_chargeDeclinedStolenCard":            {"card_declined", "stolen_card"},
	"pm_card_visa_chargeDeclinedVelocityLimitExceeded": {"card_declined", "card_velocity_exceeded"},
	"pm_card_chargeDeclinedExpiredCard":                {"expired_card", ""},
	"pm_card_chargeDeclinedIncorrectCvc":               {"incorrect_cvc", ""},
	"pm_card_chargeDeclinedProcessingError":            {"processing_error", ""},
}

// stripeKnownMethod takes every test card for one that exists.
func stripeKnownMethod(id string) bool { return strings.HasPrefix(id, "pm_card_") }

func (a *stripeAPI) confirm(r stripeRequest, declined bool) answer {
	i, ok := a.intents[r.pathID]
	if !ok {
		return stripeMissing("intent", "payment_intent", r.pathID)
	}
	if method := r.Get("payment_method"); method != "" {
		if !stripeKnownMethod(method) {
			return stripeMissing("payment_method", "PaymentMethod", method)
		}
		i.paymentMethod = method
	}
	return a.charge(i, r.stripeParams, declined)
}

// charge confirms an intent. An intent is paid once, however often it is
// confirmed.
func (a *stripeAPI) charge(i *stripeIntent, p stripeParams, declined bool) answer {
	switch {
	case i.status == paid:
		return i.unexpected("You cannot confirm this PaymentIntent because it has already succeeded after being previously confirmed.")
	case i.status == closed:
		return i.unexpected("You cannot confirm this PaymentIntent because it has a status of canceled.")
	case i.paymentMethod == "":
		return i.unexpected("You cannot confirm this PaymentIntent because it's missing a payment method.")
	case declined:
		return a.decline(i, "card_declined", "insufficient_funds")
	}
	if codes, ok := stripeDeclines[i.paymentMethod]; ok {
		return a.decline(i, codes[0], codes[1])
	}
	if needsBuyer := a.options.ManualBuyer || strings.HasPrefix(i.paymentMethod, "pm_card_authenticationRequired") ||
		strings.HasPrefix(i.paymentMethod, "pm_card_threeDSecure"); needsBuyer {
		if p.Get("error_on_requires_action") == "true" {
			return a.decline(i, "authentication_required", "")
		}
		i.phase = stripeNeedsAction
		return a.answerIntent(i, p)
	}
	a.pay(i.trade)
	a.announce(i.trade, event{kind: eventPaid})
	return a.answerIntent(i, p)
}

// unexpected refuses what the state of the intent does not allow.
func (i *stripeIntent) unexpected(message string) answer {
	problem := stripeInvalid("", "payment_intent_unexpected_state", message)
	problem.PaymentIntent = i.object(i.intentStatus())
	return stripeFailure(http.StatusBadRequest, *problem)
}

// decline is what the card's issuer refused. The intent then waits for another
// payment method.
func (a *stripeAPI) decline(i *stripeIntent, code, declineCode string) answer {
	problem := stripeDeclined(i.chargeID(i.attempts), code, declineCode)
	i.attempts++
	i.lastError, i.phase, i.paymentMethod = &problem, stripeNeedsMethod, ""
	a.announce(i.trade, event{kind: eventFailed})
	told := problem
	told.PaymentIntent = i.object(i.intentStatus())
	return stripeFailure(http.StatusPaymentRequired, told)
}

func stripeDeclined(chargeID, code, declineCode string) stripeError {
	return stripeError{
		Type: "card_error", Code: code, DeclineCode: declineCode, Message: "Your card was declined.", Charge: chargeID,
	}
}

func (a *stripeAPI) cancel(r stripeRequest, _ bool) answer {
	i, ok := a.intents[r.pathID]
	switch {
	case !ok:
		return stripeMissing("intent", "payment_intent", r.pathID)
	case i.status != waiting:
		return i.unexpected("You cannot cancel this PaymentIntent because it has a status of " + i.intentStatus() + ".")
	}
	a.turnAway(i.trade)
	a.announce(i.trade, event{kind: eventClosed})
	return a.answerIntent(i, r.stripeParams)
}

func (a *stripeAPI) retrieve(r stripeRequest, _ bool) answer {
	i, ok := a.intents[r.pathID]
	if !ok {
		return stripeMissing("intent", "payment_intent", r.pathID)
	}
	return a.answerIntent(i, r.stripeParams)
}

func (a *stripeAPI) answerIntent(i *stripeIntent, p stripeParams) answer {
	return stripeJSON(http.StatusOK, a.expanded(i, p, ""))
}

// expanded is the intent, with its charge inside where expand asks for it.
func (a *stripeAPI) expanded(i *stripeIntent, p stripeParams, prefix string) map[string]any {
	object := i.object(i.intentStatus())
	if object["latest_charge"] != nil && slices.Contains(p.list("expand"), prefix+"latest_charge") {
		object["latest_charge"] = i.charge(i.refunded())
	}
	return object
}

// object is the PaymentIntent in a status: docs.stripe.com/api/payment_intents/object.
func (i *stripeIntent) object(status string) map[string]any {
	types := i.list("payment_method_types")
	if len(types) == 0 {
		types = []string{"card"}
	}
	object := map[string]any{
		"id": i.number, "object": "payment_intent", "amount": i.units(i.amount), "amount_capturable": 0, "amount_received": 0,
		"canceled_at": nil, "cancellation_reason": nil, "capture_method": cmp.Or(i.Get("capture_method"), "automatic_async"),
		"client_secret": i.secret, "confirmation_method": cmp.Or(i.Get("confirmation_method"), "automatic"),
		"created": i.createdAt.Unix(), "currency": strings.ToLower(i.currency), "customer": stripeNullable(i.Get("customer")),
		"description": stripeNullable(i.Get("description")), "last_payment_error": nil, "latest_charge": nil, "livemode": false,
		"metadata": i.metadata(), "next_action": nil, "payment_method": stripeNullable(i.paymentMethod),
		"payment_method_types": types, "status": status,
	}
	if i.attempts > 0 {
		object["latest_charge"] = i.chargeID(i.attempts - 1)
	}
	switch status {
	case stripeSucceeded:
		object["amount_received"], object["latest_charge"] = i.units(i.amount), i.chargeID(i.attempts)
		object["payment_method"] = cmp.Or(i.paymentMethod, "pm_card_visa")
	case stripeCanceled:
		object["canceled_at"] = orCreated(i.trade, i.closedAt).Unix()
	case stripeNeedsAction:
		object["next_action"] = map[string]any{"type": "use_stripe_sdk", "use_stripe_sdk": map[string]any{}}
	case stripeNeedsMethod:
		if i.lastError != nil {
			object["last_payment_error"] = *i.lastError
		}
	}
	return object
}

// failedObject is the intent after a declined attempt, also where somebody asks
// to be told of one that never was.
func (i *stripeIntent) failedObject() map[string]any {
	object := i.object(stripeNeedsMethod)
	if i.lastError == nil {
		object["last_payment_error"] = stripeDeclined(i.chargeID(i.attempts), "card_declined", "generic_decline")
	}
	return object
}

func stripeNullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// charge is the intent's successful charge: docs.stripe.com/api/charges/object.
func (i *stripeIntent) charge(refunded int64) map[string]any {
	return map[string]any{
		"id": i.chargeID(i.attempts), "object": "charge", "amount": i.units(i.amount), "amount_captured": i.units(i.amount),
		"amount_refunded": i.units(refunded), "captured": true, "created": orCreated(i.trade, i.paidAt).Unix(),
		"currency": strings.ToLower(i.currency), "livemode": false, "metadata": i.metadata(), "paid": true,
		"payment_intent": i.number, "payment_method": cmp.Or(i.paymentMethod, "pm_card_visa"),
		"refunded": refunded == i.amount, "status": stripeSucceeded,
	}
}

func (a *stripeAPI) listIntents(r stripeRequest, _ bool) answer {
	var items []map[string]any
	for _, t := range slices.Backward(a.trades) {
		if t.provider != stripeName {
			continue
		}
		i := a.intents[t.number]
		if i.matchesCreated(r.stripeParams) && (!r.Has("customer") || i.Get("customer") == r.Get("customer")) {
			items = append(items, a.expanded(i, r.stripeParams, "data."))
		}
	}
	return stripePage("/v1/payment_intents", items, r.stripeParams)
}

// matchesCreated compares with created, or with created[gt] and the like.
func (i *stripeIntent) matchesCreated(p stripeParams) bool {
	created := i.createdAt.Unix()
	for name, holds := range map[string]func(limit int64) bool{
		"created":      func(limit int64) bool { return created == limit },
		"created[gt]":  func(limit int64) bool { return created > limit },
		"created[gte]": func(limit int64) bool { return created >= limit },
		"created[lt]":  func(limit int64) bool { return created < limit },
		"created[lte]": func(limit int64) bool { return created <= limit },
	} {
		if !p.Has(name) {
			continue
		}
		limit, err := strconv.ParseInt(p.Get(name), 10, 64)
		if err != nil || !holds(limit) {
			return false
		}
	}
	return true
}

// stripePage is a page of a list, newest first: docs.stripe.com/api/pagination.
func stripePage(path string, items []map[string]any, p stripeParams) answer {
	limit := stripeDefaultPage
	if text := p.Get("limit"); text != "" {
		asked, err := strconv.Atoi(text)
		if err != nil || asked < 1 || asked > stripeMaxPage {
			return stripeFailure(http.StatusBadRequest, *stripeInvalid("limit", "parameter_invalid_integer", "Invalid integer: "+text))
		}
		limit = asked
	}
	index := func(id string) int {
		return slices.IndexFunc(items, func(item map[string]any) bool { return item["id"] == id })
	}
	if last := p.Get("starting_after"); last != "" {
		at := index(last)
		if at < 0 {
			return stripeMissing("starting_after", "object", last)
		}
		items = items[at+1:]
	}
	if first := p.Get("ending_before"); first != "" {
		at := index(first)
		if at < 0 {
			return stripeMissing("ending_before", "object", first)
		}
		items = items[max(0, at-limit):at]
	}
	more := len(items) > limit
	items = items[:min(limit, len(items))]
	return stripeJSON(http.StatusOK, map[string]any{
		"object": "list", "url": path, "has_more": more, "data": append([]map[string]any{}, items...),
	})
}

func (a *stripeAPI) validateRefund(r stripeRequest) *stripeError {
	reasons := []string{"", "duplicate", "fraudulent", "requested_by_customer"}
	switch {
	case r.Get("payment_intent") == "" && r.Get("charge") == "":
		return stripeInvalid("", "parameter_missing", "One of the following params should be provided: payment_intent or charge.")
	case !slices.Contains(reasons, r.Get("reason")):
		return stripeInvalid("reason", "", "Invalid reason: must be one of duplicate, fraudulent, or requested_by_customer")
	}
	if r.Has("amount") {
		_, problem := stripeAmount(r.stripeParams, "")
		return problem
	}
	return nil
}

// refund gives money back: docs.stripe.com/api/refunds/create. Nothing but the
// idempotency key tells a repetition from another refund.
func (a *stripeAPI) refund(r stripeRequest, declined bool) answer {
	i, missing := a.refundedIntent(r.stripeParams)
	if missing != nil {
		return *missing
	}
	chargeID := i.chargeID(i.attempts)
	left := i.amount - i.refunded()
	amount := left
	if r.Has("amount") {
		units, problem := stripeAmount(r.stripeParams, i.currency)
		if problem != nil {
			return stripeFailure(http.StatusBadRequest, *problem)
		}
		amount = units / stripeFactor(i.currency)
	}
	refuse := func(param, code, message string) answer {
		problem := stripeInvalid(param, code, message)
		problem.Charge = chargeID
		return stripeFailure(http.StatusBadRequest, *problem)
	}
	switch {
	case i.status != paid:
		return refuse("", "", "This PaymentIntent ("+i.number+") does not have a successful charge to refund.")
	case declined:
		return refuse("", "charge_disputed", "Charge "+chargeID+" has been charged back; cannot issue a refund.")
	case left == 0:
		return refuse("", "charge_already_refunded", "Charge "+chargeID+" has already been refunded.")
	case amount > left:
		return refuse("amount", "", fmt.Sprintf("Refund amount (%d) is greater than unrefunded amount on charge (%d)", i.units(amount), i.units(left)))
	}
	id := "re_" + fingerprint(a.nextNumber(), randomHex(8))[:24]
	made := a.giveBack(i.trade, refund{number: id, ownNumber: id, amount: amount})
	a.refunds[id] = r.stripeParams
	a.announce(i.trade, event{kind: eventRefundCreated, refund: made})
	a.announce(i.trade, refundEvent(i.trade, made))
	return stripeJSON(http.StatusOK, a.refundObject(i, made))
}

func (a *stripeAPI) refundedIntent(p stripeParams) (*stripeIntent, *answer) {
	if id := p.Get("payment_intent"); id != "" {
		if i, ok := a.intents[id]; ok {
			return i, nil
		}
		missing := stripeMissing("payment_intent", "payment_intent", id)
		return nil, &missing
	}
	for _, i := range a.intents {
		if i.status == paid && i.chargeID(i.attempts) == p.Get("charge") {
			return i, nil
		}
	}
	missing := stripeMissing("charge", "charge", p.Get("charge"))
	return nil, &missing
}

// refundObject is docs.stripe.com/api/refunds/object.
func (a *stripeAPI) refundObject(i *stripeIntent, r refund) map[string]any {
	asked := a.refunds[r.number]
	return map[string]any{
		"id": r.ownNumber, "object": "refund", "amount": i.units(r.amount), "charge": i.chargeID(i.attempts),
		"created": r.at.Unix(), "currency": strings.ToLower(i.currency), "metadata": asked.metadata(),
		"payment_intent": i.number, "reason": stripeNullable(asked.Get("reason")), "status": stripeSucceeded,
	}
}

func (a *stripeAPI) retrieveRefund(r stripeRequest, _ bool) answer {
	for _, i := range a.intents {
		if made, ok := i.findRefund(r.pathID); ok {
			return stripeJSON(http.StatusOK, a.refundObject(i, made))
		}
	}
	return stripeMissing("id", "refund", r.pathID)
}

func (a *stripeAPI) listRefunds(r stripeRequest, _ bool) answer {
	type dated struct {
		at     time.Time
		object map[string]any
	}
	var found []dated
	for _, i := range a.intents {
		if (r.Has("payment_intent") && r.Get("payment_intent") != i.number) ||
			(r.Has("charge") && r.Get("charge") != i.chargeID(i.attempts)) {
			continue
		}
		for _, made := range i.refunds {
			found = append(found, dated{made.at, a.refundObject(i, made)})
		}
	}
	slices.SortFunc(found, func(x, y dated) int { return y.at.Compare(x.at) })
	items := make([]map[string]any, len(found))
	for n, each := range found {
		items[n] = each.object
	}
	return stripePage("/v1/refunds", items, r.stripeParams)
}

// eventRefundCreated is Stripe's own: a refund is told by two events, of the
// refund and of its charge.
const eventRefundCreated = "refund_created"

// message is an event: docs.stripe.com/api/events/object.
func (a *stripeAPI) message(t *trade, e event) (message, error) {
	i := a.intents[t.number]
	var kind string
	data := map[string]any{}
	switch e.kind {
	case eventWaiting:
		kind, data["object"] = "payment_intent.processing", i.object("processing")
	case eventPaid:
		kind, data["object"] = "payment_intent.succeeded", i.object(stripeSucceeded)
	case eventFailed:
		kind, data["object"] = "payment_intent.payment_failed", i.failedObject()
	case eventClosed:
		kind, data["object"] = "payment_intent.canceled", i.object(stripeCanceled)
	case eventRefundCreated:
		kind, data["object"] = "refund.created", a.refundObject(i, e.refund)
	case eventRefundPartial, eventRefundFull:
		kind, data["object"] = "charge.refunded", i.charge(e.refund.total)
		data["previous_attributes"] = map[string]any{"amount_refunded": i.units(e.refund.total - e.refund.amount)}
	default:
		return message{}, noEvent(stripeName, e.kind)
	}
	body, err := json.Marshal(map[string]any{
		"id": "evt_" + fingerprint(t.number, e.kind, e.refund.number, strconv.Itoa(i.attempts))[:24], "object": "event",
		"api_version": stripeVersion, "created": stripeMoment(i, e).Unix(), "type": kind, "data": data,
		"livemode": false, "pending_webhooks": 1, "request": map[string]any{"id": nil, "idempotency_key": nil},
	})
	if err != nil {
		return message{}, fmt.Errorf("write the event: %w", err)
	}
	return message{
		url: a.target(stripeName, ""), body: string(body),
		header: func() (http.Header, error) {
			return http.Header{
				"Content-Type":     {"application/json; charset=utf-8"},
				"Stripe-Signature": {a.signature(body)},
			}, nil
		},
		accepted: func(ack acknowledgement) bool { return ack.Status >= 200 && ack.Status < 300 },
	}, nil
}

func stripeMoment(i *stripeIntent, e event) time.Time {
	switch {
	case !e.refund.at.IsZero():
		return e.refund.at
	case e.kind == eventPaid:
		return orCreated(i.trade, i.paidAt)
	case e.kind == eventClosed:
		return orCreated(i.trade, i.closedAt)
	default:
		return i.createdAt
	}
}

// signature signs a body as it is sent now: docs.stripe.com/webhooks#verify-manually.
func (a *stripeAPI) signature(body []byte) string {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(a.options.Keys.StripeWebhookSecret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "t=" + timestamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
