package pspsim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v82"
	"github.com/stripe/stripe-go/v82/webhook"

	"github.com/payonce/payonce/internal/pspsim"
)

// stripeClient is Stripe's API as its own library speaks it, without its
// retries, which would hide the faults. The library takes no address below a
// path.
func (f *fixture) stripeClient(key string) *stripe.Client {
	f.t.Helper()
	to, err := url.Parse(f.url + "/stripe")
	require.NoError(f.t, err)
	return stripe.NewClient(key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		HTTPClient:        &http.Client{Transport: redirect{to, http.DefaultTransport}},
		MaxNetworkRetries: stripe.Int64(0), EnableTelemetry: stripe.Bool(false),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
}

// stripeCharge creates an intent and confirms it at once.
func (f *fixture) stripeCharge(orderID, key, method string, amount int64) (*stripe.PaymentIntent, error) {
	params := &stripe.PaymentIntentCreateParams{
		Amount: &amount, Currency: stripe.String("usd"), Confirm: stripe.Bool(true), PaymentMethod: &method,
		PaymentMethodTypes: []*string{stripe.String("card")},
	}
	params.AddMetadata("order_id", orderID)
	if key != "" {
		params.SetIdempotencyKey(key)
	}
	return f.stripeClient(f.keys.StripeSecretKey).V1PaymentIntents.Create(f.t.Context(), params)
}

func (f *fixture) stripeRefund(intent, key string, amount int64) (*stripe.Refund, error) {
	params := &stripe.RefundCreateParams{PaymentIntent: &intent, Reason: stripe.String("requested_by_customer")}
	if amount > 0 {
		params.Amount = &amount
	}
	params.AddMetadata("refund_id", "r1")
	if key != "" {
		params.SetIdempotencyKey(key)
	}
	return f.stripeClient(f.keys.StripeSecretKey).V1Refunds.Create(f.t.Context(), params)
}

// stripeCode is the status and code of a failure, such as "402 card_declined".
func stripeCode(t *testing.T, err error) string {
	t.Helper()
	var problem *stripe.Error
	require.True(t, errors.As(err, &problem), "%v", err)
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", problem.HTTPStatusCode, problem.Type, problem.Code))
}

func TestStripeConfirmedIntentIsPaidAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	made, err := f.stripeCharge("order-1", "key-1", "pm_card_visa", 1050)
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusSucceeded, made.Status)
	require.Equal(t, int64(1050), made.AmountReceived)
	require.NotEmpty(t, made.LatestCharge.ID)
	require.NotEmpty(t, made.ClientSecret)
	require.NotEmpty(t, made.LastResponse.RequestID)

	client := f.stripeClient(f.keys.StripeSecretKey)
	params := &stripe.PaymentIntentRetrieveParams{}
	params.AddExpand("latest_charge")
	found, err := client.V1PaymentIntents.Retrieve(t.Context(), made.ID, params)
	require.NoError(t, err)
	require.Equal(t, "order-1", found.Metadata["order_id"])
	require.True(t, found.LatestCharge.Paid)
	require.Equal(t, []string{"charge 1050 USD"}, f.moved("stripe", "order-1"))

	_, err = client.V1PaymentIntents.Retrieve(t.Context(), "pi_none", nil)
	require.Equal(t, "404 invalid_request_error resource_missing", stripeCode(t, err))
	_, err = client.V1PaymentIntents.Confirm(t.Context(), made.ID, nil)
	require.Equal(t, "400 invalid_request_error payment_intent_unexpected_state", stripeCode(t, err))
	_, err = client.V1PaymentIntents.Cancel(t.Context(), made.ID, nil)
	require.Equal(t, "400 invalid_request_error payment_intent_unexpected_state", stripeCode(t, err))
	require.Len(t, f.sim.Ledger(), 1)
}

func TestStripeIntentConfirmedLater(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.stripeClient(f.keys.StripeSecretKey)
	made, err := client.V1PaymentIntents.Create(t.Context(), &stripe.PaymentIntentCreateParams{
		Amount: stripe.Int64(100), Currency: stripe.String("jpy"), PaymentMethod: stripe.String("pm_card_visa"),
	})
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusRequiresConfirmation, made.Status)
	require.Empty(t, f.sim.Ledger(), "an intent that waits for its confirmation moves no money")

	var calls sync.WaitGroup
	errs := make([]error, 10)
	for n := range errs {
		calls.Go(func() { _, errs[n] = client.V1PaymentIntents.Confirm(t.Context(), made.ID, nil) })
	}
	calls.Wait()
	confirmed := 0
	for _, err := range errs {
		if err == nil {
			confirmed++
			continue
		}
		require.Equal(t, "400 invalid_request_error payment_intent_unexpected_state", stripeCode(t, err))
	}
	require.Equal(t, 1, confirmed)
	require.Equal(t, []string{"charge 100 JPY"}, f.moved("stripe", made.ID), "without metadata.order_id the ledger has the intent")
}

func TestStripeBuyerPaysByClientSecret(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.stripeClient(f.keys.StripeSecretKey)
	params := &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(100), Currency: stripe.String("eur")}
	params.AddMetadata("order_id", "order-1")
	made, err := client.V1PaymentIntents.Create(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusRequiresPaymentMethod, made.Status)
	found, err := client.V1PaymentIntents.Retrieve(t.Context(), made.ID, nil)
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusSucceeded, found.Status)
	require.Equal(t, []string{"charge 100 EUR"}, f.moved("stripe", "order-1"))

	f.arm("stripe", "charge", "decline")
	_, err = client.V1PaymentIntents.Create(t.Context(), params)
	require.Equal(t, "400 invalid_request_error testmode_charges_only", stripeCode(t, err))
}

func TestStripeDeclinedCards(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	for method, want := range map[string]struct {
		code    stripe.ErrorCode
		decline stripe.DeclineCode
	}{
		"pm_card_visa_chargeDeclined":                  {stripe.ErrorCodeCardDeclined, stripe.DeclineCodeGenericDecline},
		"pm_card_visa_chargeDeclinedInsufficientFunds": {stripe.ErrorCodeCardDeclined, stripe.DeclineCodeInsufficientFunds},
		"pm_card_chargeDeclinedExpiredCard":            {stripe.ErrorCodeExpiredCard, ""},
	} {
		_, err := f.stripeCharge("order-1", "", method, 100)
		var problem *stripe.Error
		require.True(t, errors.As(err, &problem))
		require.Equal(t, http.StatusPaymentRequired, problem.HTTPStatusCode)
		require.Equal(t, stripe.ErrorTypeCard, problem.Type)
		require.Equal(t, want.code, problem.Code)
		require.Equal(t, want.decline, problem.DeclineCode)
		require.Equal(t, stripe.PaymentIntentStatusRequiresPaymentMethod, problem.PaymentIntent.Status)

		// Another card may pay the same intent.
		client := f.stripeClient(f.keys.StripeSecretKey)
		_, err = client.V1PaymentIntents.Confirm(t.Context(), problem.PaymentIntent.ID, nil)
		require.Equal(t, "400 invalid_request_error payment_intent_unexpected_state", stripeCode(t, err))
		paid, err := client.V1PaymentIntents.Confirm(t.Context(), problem.PaymentIntent.ID,
			&stripe.PaymentIntentConfirmParams{PaymentMethod: stripe.String("pm_card_visa")})
		require.NoError(t, err)
		require.Equal(t, stripe.PaymentIntentStatusSucceeded, paid.Status)
		require.NotEqual(t, problem.ChargeID, paid.LatestCharge.ID)
	}
	_, err := f.stripeCharge("order-2", "", "pm_unknown", 100)
	require.Equal(t, "400 invalid_request_error resource_missing", stripeCode(t, err))
	require.Len(t, f.sim.Ledger(), 3)
}

func TestStripeManualBuyer(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{ManualBuyer: true})
	client := f.stripeClient(f.keys.StripeSecretKey)
	made, err := f.stripeCharge("order-1", "", "pm_card_visa", 100)
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusRequiresAction, made.Status)
	require.NotNil(t, made.NextAction)
	require.Empty(t, f.sim.Ledger())
	status, _ := f.control("/buyer", `{"provider":"stripe","out_trade_no":"order-1","action":"pay"}`)
	require.Equal(t, http.StatusOK, status)
	found, err := client.V1PaymentIntents.Retrieve(t.Context(), made.ID, nil)
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusSucceeded, found.Status)

	other, err := f.stripeCharge("order-2", "", "pm_card_visa", 100)
	require.NoError(t, err)
	canceled, err := client.V1PaymentIntents.Cancel(t.Context(), other.ID, nil)
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusCanceled, canceled.Status)
	require.NotZero(t, canceled.CanceledAt)
	_, err = client.V1PaymentIntents.Confirm(t.Context(), other.ID, nil)
	require.Equal(t, "400 invalid_request_error payment_intent_unexpected_state", stripeCode(t, err))
	require.Empty(t, f.moved("stripe", "order-2"))
}

func TestStripeIdempotencyKeys(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	first, err := f.stripeCharge("order-1", "key-1", "pm_card_visa", 100)
	require.NoError(t, err)
	require.Empty(t, first.LastResponse.Header.Get("Idempotent-Replayed"))
	again, err := f.stripeCharge("order-1", "key-1", "pm_card_visa", 100)
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	require.Equal(t, "true", again.LastResponse.Header.Get("Idempotent-Replayed"))
	require.Equal(t, first.LastResponse.RequestID, again.LastResponse.Header.Get("Original-Request"))
	require.Equal(t, first.LastResponse.RawJSON, again.LastResponse.RawJSON)
	_, err = f.stripeCharge("order-1", "key-1", "pm_card_visa", 101)
	require.Equal(t, "400 idempotency_error", stripeCode(t, err))
	_, err = f.stripeRefund(first.ID, "key-1", 0)
	require.Equal(t, "400 idempotency_error", stripeCode(t, err), "another endpoint is another request")
	header := f.stripeHeader()
	header.Set("Idempotency-Key", strings.Repeat("k", 256))
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, _, _ := f.send(http.MethodPost, "/stripe/v1/payment_intents", header, "amount=100&currency=usd")
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, []string{"charge 100 USD"}, f.moved("stripe", "order-1"))
}

// A failure is an outcome too: a decline and a 500 are replayed, and only
// another key tries anew.
func TestStripeReplaysFailures(t *testing.T) {
	t.Parallel()
	for fault, code := range map[string]string{
		"decline": "402 card_error card_declined", "error_before": "500 api_error", "error_after": "500 api_error",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			f := setup(t, pspsim.Options{})
			f.arm("stripe", "charge", fault)
			for n := range 2 {
				_, err := f.stripeCharge("order-1", "key-1", "pm_card_visa", 100)
				require.Equal(t, code, stripeCode(t, err))
				var problem *stripe.Error
				require.True(t, errors.As(err, &problem))
				require.Equal(t, n == 1, problem.LastResponse.Header.Get("Idempotent-Replayed") == "true")
				if problem.HTTPStatusCode == http.StatusInternalServerError {
					require.Equal(t, "false", problem.LastResponse.Header.Get("Stripe-Should-Retry"))
				}
			}
			before := len(f.moved("stripe", "order-1"))
			_, err := f.stripeCharge("order-1", "key-2", "pm_card_visa", 100)
			require.NoError(t, err)
			require.Len(t, f.moved("stripe", "order-1"), before+1)
		})
	}
}

// What is refused before execution leaves the key free.
func TestStripeKeepsNoValidationFailures(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	_, err := f.stripeCharge("order-1", "key-1", "pm_card_visa", 0)
	require.Equal(t, "400 invalid_request_error parameter_invalid_integer", stripeCode(t, err))
	_, err = f.stripeCharge("order-1", "key-1", "pm_card_visa", 100)
	require.NoError(t, err)
}

func TestStripeRefusesAKeyThatIsInUse(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	require.NoError(t, f.sim.Arm(pspsim.Fault{Provider: "stripe", Op: "charge", Fault: "delay", DelayMS: 600_000}))
	var first sync.WaitGroup
	first.Go(func() { _, _ = f.stripeCharge("order-1", "key-1", "pm_card_visa", 100) })
	require.Eventually(t, func() bool { return f.sim.Requests()["stripe/charge"] == 1 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := f.stripeCharge("order-1", "key-1", "pm_card_visa", 100)
		var problem *stripe.Error
		return errors.As(err, &problem) && problem.HTTPStatusCode == http.StatusConflict &&
			problem.Code == stripe.ErrorCodeIdempotencyKeyInUse && problem.LastResponse.Header.Get("Stripe-Should-Retry") == "true"
	}, time.Minute, time.Millisecond)
	f.sim.Close() // ends the delay
	first.Wait()
	require.Equal(t, []string{"charge 100 USD"}, f.moved("stripe", "order-1"))
}

func TestStripeLists(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.stripeClient(f.keys.StripeSecretKey)
	var made []string
	for n := range 5 {
		intent, err := f.stripeCharge(fmt.Sprintf("order-%d", n), "", "pm_card_visa", 100)
		require.NoError(t, err)
		made = append([]string{intent.ID}, made...)
	}
	params := &stripe.PaymentIntentListParams{CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: 1}}
	params.Limit = stripe.Int64(2)
	var listed []string
	for intent, err := range client.V1PaymentIntents.List(t.Context(), params) {
		require.NoError(t, err)
		listed = append(listed, intent.ID)
	}
	require.Equal(t, made, listed, "the pages together are all, newest first")
	params.CreatedRange = &stripe.RangeQueryParams{GreaterThan: time.Now().Add(time.Hour).Unix()}
	for range client.V1PaymentIntents.List(t.Context(), params) {
		require.Fail(t, "none is from the future")
	}
	_, _, page := f.send(http.MethodGet, "/stripe/v1/payment_intents?limit=2&ending_before="+made[4], f.stripeHeader(), "")
	require.Contains(t, page, made[3])
	require.Contains(t, page, made[2])
	require.NotContains(t, page, made[1])
	status, _, _ := f.send(http.MethodGet, "/stripe/v1/payment_intents?limit=101", f.stripeHeader(), "")
	require.Equal(t, http.StatusBadRequest, status)
}

func (f *fixture) stripeHeader() http.Header {
	return http.Header{"Authorization": {"Bearer " + f.keys.StripeSecretKey}}
}

func TestStripeRefunds(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.stripeClient(f.keys.StripeSecretKey)
	_, err := f.stripeRefund("pi_none", "", 0)
	require.Equal(t, "400 invalid_request_error resource_missing", stripeCode(t, err))
	intent, err := f.stripeCharge("order-1", "", "pm_card_visa", 100)
	require.NoError(t, err)

	part, err := f.stripeRefund(intent.ID, "refund-1", 30)
	require.NoError(t, err)
	require.Equal(t, stripe.RefundStatusSucceeded, part.Status)
	require.Equal(t, intent.LatestCharge.ID, part.Charge.ID)
	again, err := f.stripeRefund(intent.ID, "refund-1", 30)
	require.NoError(t, err)
	require.Equal(t, part.ID, again.ID)
	_, err = f.stripeRefund(intent.ID, "", 71)
	require.Equal(t, "400 invalid_request_error", stripeCode(t, err))
	rest, err := f.stripeRefund(intent.ID, "refund-2", 0)
	require.NoError(t, err)
	require.Equal(t, int64(70), rest.Amount)
	_, err = f.stripeRefund(intent.ID, "", 1)
	require.Equal(t, "400 invalid_request_error charge_already_refunded", stripeCode(t, err))
	require.Equal(t, []string{"charge 100 USD", "refund 30 USD", "refund 70 USD"}, f.moved("stripe", "order-1"))

	found, err := client.V1Refunds.Retrieve(t.Context(), part.ID, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"refund_id": "r1"}, found.Metadata)
	require.Equal(t, stripe.RefundReasonRequestedByCustomer, found.Reason)
	var listed []string
	for each, err := range client.V1Refunds.List(t.Context(), &stripe.RefundListParams{PaymentIntent: &intent.ID}) {
		require.NoError(t, err)
		listed = append(listed, each.ID)
	}
	require.Equal(t, []string{rest.ID, part.ID}, listed)
	_, err = client.V1Refunds.Retrieve(t.Context(), "re_none", nil)
	require.Equal(t, "404 invalid_request_error resource_missing", stripeCode(t, err))

	byCharge, err := f.stripeCharge("order-2", "", "pm_card_visa", 100)
	require.NoError(t, err)
	_, err = client.V1Refunds.Create(t.Context(), &stripe.RefundCreateParams{Charge: &byCharge.LatestCharge.ID})
	require.NoError(t, err)
	require.Equal(t, []string{"charge 100 USD", "refund 100 USD"}, f.moved("stripe", "order-2"))
}

func TestStripeFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		op, fault string
		code      string
		cut       bool
		moved     []string
	}{
		{op: "charge", fault: "error_before", code: "500 api_error"},
		{op: "charge", fault: "error_after", code: "500 api_error", moved: []string{"charge 100 USD"}},
		{op: "charge", fault: "drop_after", cut: true, moved: []string{"charge 100 USD"}},
		{op: "charge", fault: "delay", moved: []string{"charge 100 USD"}},
		{op: "charge", fault: "decline", code: "402 card_error card_declined"},
		{op: "query", fault: "error_before", code: "500 api_error"},
		{op: "query", fault: "error_after", code: "500 api_error"},
		{op: "query", fault: "drop_after", cut: true},
		{op: "refund", fault: "error_before", code: "500 api_error"},
		{op: "refund", fault: "error_after", code: "500 api_error", moved: []string{"refund 40 USD"}},
		{op: "refund", fault: "drop_after", cut: true, moved: []string{"refund 40 USD"}},
		{op: "refund", fault: "decline", code: "400 invalid_request_error charge_disputed"},
	} {
		t.Run(test.op+"/"+test.fault, func(t *testing.T) {
			t.Parallel()
			f := setup(t, pspsim.Options{})
			intent := ""
			call := map[string]func() error{
				"charge": func() error {
					made, err := f.stripeCharge("order-1", "charge", "pm_card_visa", 100)
					if err == nil {
						intent = made.ID
					}
					return err
				},
				"query": func() error {
					_, err := f.stripeClient(f.keys.StripeSecretKey).V1PaymentIntents.Retrieve(t.Context(), intent, nil)
					return err
				},
				"refund": func() error { _, err := f.stripeRefund(intent, "refund", 40); return err },
			}
			if test.op != "charge" {
				require.NoError(t, call["charge"]())
			}
			before := len(f.moved("stripe", "order-1"))
			require.NoError(t, f.sim.Arm(pspsim.Fault{Provider: "stripe", Op: test.op, Fault: test.fault, DelayMS: 1}))
			err := call[test.op]()
			var problem *stripe.Error
			switch {
			case test.cut:
				require.Error(t, err)
				require.False(t, errors.As(err, &problem))
				require.NoError(t, call[test.op](), "the same key gets the result that was cut off")
			case test.code != "":
				require.Equal(t, test.code, stripeCode(t, err))
			default:
				require.NoError(t, err)
			}
			require.Equal(t, test.moved, append([]string(nil), f.moved("stripe", "order-1")[before:]...))
		})
	}
}

func TestStripeRefusesWrongKeysAndParameters(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	_, err := f.stripeClient("sk_test_wrong").V1PaymentIntents.Retrieve(t.Context(), "pi_none", nil)
	require.Equal(t, "401 invalid_request_error", stripeCode(t, err))
	status, _, answer := f.send(http.MethodPost, "/stripe/v1/payment_intents", nil, "")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, answer, "You did not provide an API key")
	status, _, _ = f.send(http.MethodGet, "/stripe/v1/nonsense", f.stripeHeader(), "")
	require.Equal(t, http.StatusNotFound, status)

	for body, want := range map[string]string{
		"currency=usd":                                          `"parameter_missing"`,
		"amount=100":                                            `"parameter_missing"`,
		"amount=1.50&currency=usd":                              `"parameter_invalid_integer"`,
		"amount=100000000&currency=usd":                         `"amount_too_large"`,
		"amount=100&currency=zzz":                               "Invalid currency",
		"amount=1001&currency=kwd":                              "three-decimal",
		"amount=101&currency=isk":                               "must be 00",
		"amount=100&currency=usd&colour=red":                    `"parameter_unknown"`,
		"amount=100&currency=usd&capture_method=manual":         "capture_method",
		"amount=100&currency=usd&confirm=true":                  "return_url",
		"amount=100&currency=usd&payment_method=pm_unknown":     `"resource_missing"`,
		"amount=100&currency=usd&confirm=true&return_url=http%": "Invalid request body",
	} {
		header := f.stripeHeader()
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		status, _, answer := f.send(http.MethodPost, "/stripe/v1/payment_intents", header, body)
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, answer, want, body)
	}
	require.Empty(t, f.sim.Ledger())
	_, err = f.stripeCharge("order-1", "", "pm_card_visa", 1)
	require.NoError(t, err)
	for body, want := range map[string]string{"amount=1": `"parameter_missing"`, "charge=ch_none": `"resource_missing"`, "charge=ch_none&reason=none": "Invalid reason"} {
		header := f.stripeHeader()
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		_, _, answer := f.send(http.MethodPost, "/stripe/v1/refunds", header, body)
		require.Contains(t, answer, want)
	}
}

// Stripe charges two currencies without decimals as if they had two.
func TestStripeLedgerIsInMinorUnits(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	client := f.stripeClient(f.keys.StripeSecretKey)
	for currency, want := range map[string]string{"isk": "charge 5 ISK", "jpy": "charge 500 JPY", "kwd": "charge 500 KWD"} {
		params := &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(500), Currency: &currency}
		params.AddMetadata("order_id", currency)
		made, err := client.V1PaymentIntents.Create(t.Context(), params)
		require.NoError(t, err)
		require.Equal(t, int64(500), made.Amount)
		require.Equal(t, []string{want}, f.moved("stripe", currency))
	}
}

// stripeEvent verifies and reads an event with Stripe's library.
func (f *fixture) stripeEvent(t *testing.T, got delivery) stripe.Event {
	t.Helper()
	told, err := webhook.ConstructEvent([]byte(got.body), got.header.Get("Stripe-Signature"), f.keys.StripeWebhookSecret)
	require.NoError(t, err)
	return told
}

func TestStripeSendsEvents(t *testing.T) {
	t.Parallel()
	statuses := make(chan int, 5)
	for _, status := range []int{500, 200, 201, 204, 299} {
		statuses <- status
	}
	box := newInbox(t, func(w http.ResponseWriter, _ delivery) { w.WriteHeader(<-statuses) })
	f := setup(t, pspsim.Options{NotifyURL: box.url})
	intent, err := f.stripeCharge("order-1", "", "pm_card_visa", 100)
	require.NoError(t, err)
	refused := box.next(t)
	require.Equal(t, "/webhooks/stripe", refused.path)
	told := f.stripeEvent(t, refused)
	require.Equal(t, stripe.EventTypePaymentIntentSucceeded, told.Type)
	var object stripe.PaymentIntent
	require.NoError(t, json.Unmarshal(told.Data.Raw, &object))
	require.Equal(t, intent.ID, object.ID)
	require.Equal(t, "order-1", object.Metadata["order_id"])
	require.Equal(t, told.ID, f.stripeEvent(t, box.next(t)).ID)

	_, err = f.stripeRefund(intent.ID, "", 40)
	require.NoError(t, err)
	kinds := map[stripe.EventType]bool{}
	for range 2 {
		kinds[f.stripeEvent(t, box.next(t)).Type] = true
	}
	require.Equal(t, map[stripe.EventType]bool{stripe.EventTypeRefundCreated: true, stripe.EventTypeChargeRefunded: true}, kinds)

	_, err = f.stripeCharge("order-2", "", "pm_card_visa_chargeDeclined", 100)
	require.Error(t, err)
	require.Equal(t, stripe.EventTypePaymentIntentPaymentFailed, f.stripeEvent(t, box.next(t)).Type)
	f.sim.Close()
	require.Empty(t, box.deliveries)
}

func TestStripeNotifyOnRequest(t *testing.T) {
	t.Parallel()
	box := newInbox(t, acknowledge("{}"))
	f := setup(t, pspsim.Options{NotifyURL: box.url})
	_, err := f.stripeCharge("order-1", "", "pm_card_visa", 101)
	require.NoError(t, err)
	paid := f.stripeEvent(t, box.next(t))
	seen := map[string]bool{}
	for _, test := range []struct {
		event string
		kind  stripe.EventType
	}{
		{"waiting", stripe.EventTypePaymentIntentProcessing}, {"paid", stripe.EventTypePaymentIntentSucceeded},
		{"failed", stripe.EventTypePaymentIntentPaymentFailed}, {"closed", stripe.EventTypePaymentIntentCanceled},
		{"refund_partial", stripe.EventTypeChargeRefunded}, {"refund_full", stripe.EventTypeChargeRefunded},
	} {
		acks := f.notify(fmt.Sprintf(`{"provider":"stripe","out_trade_no":"order-1","event":%q,"times":2}`, test.event))
		require.Len(t, acks, 2)
		one, two := f.stripeEvent(t, box.next(t)), f.stripeEvent(t, box.next(t))
		require.Equal(t, one, two)
		require.Equal(t, test.kind, one.Type)
		require.False(t, seen[one.ID])
		seen[one.ID] = true
		if test.kind == stripe.EventTypeChargeRefunded {
			var charge stripe.Charge
			require.NoError(t, json.Unmarshal(one.Data.Raw, &charge))
			require.Equal(t, test.event == "refund_full", charge.Refunded)
			require.Equal(t, map[string]int64{"refund_partial": 50, "refund_full": 101}[test.event], charge.AmountRefunded)
		}
	}
	require.True(t, seen[paid.ID])
	status, answer := f.control("/notify", `{"provider":"stripe","out_trade_no":"order-1","event":"finished"}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer, "stripe sends no notification")
	require.Equal(t, []string{"charge 101 USD"}, f.moved("stripe", "order-1"))
}
