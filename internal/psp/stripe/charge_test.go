package stripe_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/stripe"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	provider, _ := setup(t, nil)
	field := func(name, value string) func(*psp.ChargeRequest) {
		return func(r *psp.ChargeRequest) { r.Fields[name] = value }
	}
	amount := func(amount int64, currency string) func(*psp.ChargeRequest) {
		return func(r *psp.ChargeRequest) { r.Money = money.Money{Amount: amount, Currency: currency} }
	}
	for name, test := range map[string]struct {
		change func(*psp.ChargeRequest)
		field  string
	}{
		"fine":                 {func(*psp.ChargeRequest) {}, ""},
		"by card":              {func(r *psp.ChargeRequest) { r.Method = "card" }, ""},
		"64 characters":        {func(r *psp.ChargeRequest) { r.OrderID = strings.Repeat("o", 64) }, ""},
		"65 characters":        {func(r *psp.ChargeRequest) { r.OrderID = strings.Repeat("o", 65) }, "order_id"},
		"no order id":          {func(r *psp.ChargeRequest) { r.OrderID = "" }, "order_id"},
		"not ASCII":            {func(r *psp.ChargeRequest) { r.OrderID = "茶-order" }, "order_id"},
		"a line's end":         {func(r *psp.ChargeRequest) { r.OrderID = "order-1\n" }, "order_id"},
		"another method":       {func(r *psp.ChargeRequest) { r.Method = "cash" }, "method"},
		"no payment method":    {func(r *psp.ChargeRequest) { r.Fields = nil }, "payment_method"},
		"a card's number":      {field("payment_method", "4242424242424242"), "payment_method"},
		"a path":               {field("payment_method", "pm_1/../x"), "payment_method"},
		"unknown field":        {field("confirm", "true"), "confirm"},
		"return_url":           {field("return_url", "https://shop.example/back"), ""},
		"no address":           {field("return_url", "shop.example"), "return_url"},
		"receipt_email":        {field("receipt_email", "a@shop.example"), ""},
		"a field too long":     {field("receipt_email", strings.Repeat("a", 2049)), "receipt_email"},
		"zero":                 {amount(0, "USD"), "amount"},
		"below zero":           {amount(-1, "USD"), "amount"},
		"eight digits":         {amount(99_999_999, "USD"), ""},
		"nine digits":          {amount(100_000_000, "USD"), "amount"},
		"yen":                  {amount(1, "JPY"), ""},
		"won":                  {amount(99_999_999, "KRW"), ""},
		"dong":                 {amount(1, "VND"), ""},
		"dinar":                {amount(10, "KWD"), ""},
		"dinar, last digit":    {amount(1001, "BHD"), "amount"},
		"krona":                {amount(999_999, "ISK"), ""},
		"krona, as they count": {amount(1_000_000, "ISK"), "amount"},
		"no currency":          {amount(1, ""), "currency"},
		"no such currency":     {amount(1, "QQQ"), "currency"},
		"counted differently":  {amount(1000, "IQD"), "currency"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := order("order-1", 1000)
			test.change(&request)
			err := provider.Validate(request)
			if test.field == "" {
				require.NoError(t, err)
				return
			}
			var refused *psp.FieldError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, test.field, refused.Field)
		})
	}
}

// An amount is the same at both sides to the last minor unit, whatever decimals
// its currency has.
func TestAmountsToTheLastUnit(t *testing.T) {
	t.Parallel()
	provider, simulator := setup(t, nil)
	amounts := []money.Money{
		usd(1), usd(9), usd(10), usd(99), usd(100), usd(101), usd(99_999_999), {Amount: 1, Currency: "JPY"},
		{Amount: 99_999_999, Currency: "JPY"}, {Amount: 50_001, Currency: "KRW"}, {Amount: 99_999_999, Currency: "VND"},
		{Amount: 10, Currency: "KWD"}, {Amount: 99_999_990, Currency: "BHD"}, {Amount: 999_999, Currency: "ISK"}, {Amount: 7, Currency: "UGX"},
	}
	for i, amount := range amounts {
		request := order(fmt.Sprintf("amount-%d", i), 0)
		request.Money = amount
		require.NoError(t, provider.Validate(request))
		result := provider.Charge(t.Context(), request)
		require.Equal(t, psp.Succeeded, result.Verdict, "%+v", result)
		require.Equal(t, amount, result.Paid)
		asked := psp.Trade{OrderID: request.OrderID, Attempt: 1, Money: amount, StartedAt: time.Now()}
		require.Equal(t, amount, provider.Query(t.Context(), asked).Paid)
		require.Equal(t, amount.Amount, simulator.Ledger()[i].Amount)
	}
}

func TestCharges(t *testing.T) {
	t.Parallel()
	provider, simulator := setup(t, nil)
	first := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Succeeded, first.Verdict, "%+v", first)
	require.Equal(t, usd(1000), first.Paid)
	require.Regexp(t, "^pi_", first.TradeNo)

	repeated := provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, first.TradeNo, repeated.TradeNo, "the attempt's key gets the attempt's intent")
	require.Equal(t, psp.Succeeded, repeated.Verdict)

	asked := provider.Query(t.Context(), trade("order-1", 1000))
	require.Equal(t, psp.Succeeded, asked.Verdict)
	require.Equal(t, first.TradeNo, asked.TradeNo)
	require.Len(t, simulator.Ledger(), 1)

	// The key was used with another amount: refused, and nothing moves.
	other := provider.Charge(t.Context(), order("order-1", 2000))
	require.Equal(t, psp.Terminal, other.Verdict)
	require.Equal(t, "idempotency_error", other.Code)
	require.Len(t, simulator.Ledger(), 1)
}

// Another payment method under a key that paid already is refused by Stripe,
// and looked up: it becomes the success that it is.
func TestPaidWithAnotherCard(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]told{
		creates:  {intent("requires_payment_method")},
		confirms: {problem(http.StatusBadRequest, "idempotency_error", "")},
		reads:    {intent("succeeded")},
	})
	result := s.provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Succeeded, result.Verdict)
	require.Equal(t, usd(1000), result.Paid)
	require.Equal(t, []string{creates, confirms, reads}, s.calls())
}

// Each decline is terminal and final for its attempt: Stripe would replay it
// for 24 hours. The next attempt has keys of its own and is charged.
func TestDeclines(t *testing.T) {
	t.Parallel()
	for method, code := range map[string]string{
		"pm_card_visa_chargeDeclined":                  "generic_decline",
		"pm_card_visa_chargeDeclinedInsufficientFunds": "insufficient_funds",
		"pm_card_visa_chargeDeclinedLostCard":          "lost_card",
		"pm_card_visa_chargeDeclinedStolenCard":        "stolen_card",
		"pm_card_chargeDeclinedExpiredCard":            "expired_card",
		"pm_card_chargeDeclinedIncorrectCvc":           "incorrect_cvc",
		"pm_card_chargeDeclinedProcessingError":        "processing_error",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			provider, simulator := setup(t, nil)
			declined := provider.Charge(t.Context(), payingWith(order("order-1", 1000), method))
			require.Equal(t, psp.Terminal, declined.Verdict, "%+v", declined)
			require.Equal(t, code, declined.Code)
			require.Empty(t, simulator.Ledger())
			require.Equal(t, psp.Terminal, provider.Charge(t.Context(), payingWith(order("order-1", 1000), method)).Verdict)
			asked := provider.Query(t.Context(), trade("order-1", 1000))
			require.Equal(t, psp.Terminal, asked.Verdict)

			require.Equal(t, psp.Terminal, provider.Charge(t.Context(), order("order-1", 1000)).Verdict,
				"a good card under the declined attempt's keys")
			require.Empty(t, simulator.Ledger())
			second := provider.Charge(t.Context(), attempt(order("order-1", 1000), 2))
			require.Equal(t, psp.Succeeded, second.Verdict, "%+v", second)
			require.Len(t, simulator.Ledger(), 1)
		})
	}
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	provider, simulator := setup(t, nil)
	waiting := provider.Charge(t.Context(), payingWith(order("order-1", 1000), "pm_card_authenticationRequired"))
	require.Equal(t, psp.Pending, waiting.Verdict, "%+v", waiting)
	require.NotEmpty(t, waiting.Next["client_secret"])
	asked := provider.Query(t.Context(), trade("order-1", 1000))
	require.Equal(t, psp.Pending, asked.Verdict)
	require.Equal(t, waiting.Next, asked.Next, "a query tells the client how to go on as well")
	require.Empty(t, simulator.Ledger())
}

// Each fault of the simulator, then a query, then the same charge again: one
// charge at most, and exactly one in the end.
func TestFaults(t *testing.T) {
	t.Parallel()
	for fault, test := range map[string]struct{ charge, query psp.Verdict }{
		"error_before": {psp.InDoubt, psp.NotFound},
		"error_after":  {psp.InDoubt, psp.Succeeded},
		"drop_after":   {psp.InDoubt, psp.Succeeded},
		"decline":      {psp.Terminal, psp.Terminal},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			provider, simulator := setup(t, nil)
			require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "stripe", Op: "charge", Fault: fault}))
			result := provider.Charge(t.Context(), order("order-1", 1000))
			require.Equal(t, test.charge, result.Verdict, "%+v", result)
			asked := provider.Query(t.Context(), trade("order-1", 1000))
			require.Equal(t, test.query, asked.Verdict, "%+v", asked)
			next := order("order-1", 1000)
			if test.query == psp.Terminal {
				next.Attempt = 2
			}
			retried := provider.Charge(t.Context(), next)
			require.Equal(t, psp.Succeeded, retried.Verdict, "%+v", retried)
			require.Len(t, simulator.Ledger(), 1)
		})
	}
}

// A charge that the caller gave up on may have been made: it is in doubt.
func TestDeadline(t *testing.T) {
	t.Parallel()
	provider, simulator := setup(t, nil)
	require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "stripe", Op: "charge", Fault: "delay", DelayMS: 2000}))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.Equal(t, psp.InDoubt, provider.Charge(ctx, order("order-1", 1000)).Verdict)
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	provider, _ := setup(t, func(c *stripe.Config, _ *pspsim.Options) { c.BaseURL = "http://127.0.0.1:1" })
	require.Equal(t, psp.Transient, provider.Charge(t.Context(), order("order-1", 1000)).Verdict, "nothing was sent")
	require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order-1", 1000)).Verdict)
}

// The keys follow from order and attempt, one for each step, and are the same
// however often a charge is repeated.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]told{creates: {intent("requires_payment_method")}, confirms: {intent("succeeded")}})
	for range 2 {
		require.Equal(t, psp.Succeeded, s.provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
	}
	require.Equal(t, psp.Succeeded, s.provider.Charge(t.Context(), attempt(order("order-1", 1000), 2)).Verdict)
	var sent []string
	for _, each := range s.requests() {
		sent = append(sent, each.key)
	}
	first := []string{"payonce/order-1/1-create", "payonce/order-1/1-confirm"}
	require.Equal(t, append(append(append([]string{}, first...), first...), "payonce/order-1/2-create", "payonce/order-1/2-confirm"), sent)

	create := s.requests()[0].form
	require.Equal(t, "1000", create.Get("amount"))
	require.Equal(t, "usd", create.Get("currency"))
	require.Equal(t, "order-1", create.Get("metadata[order_id]"))
	require.Equal(t, "1", create.Get("metadata[attempt]"))
	require.Equal(t, "pm_card_visa", s.requests()[1].form.Get("payment_method"))
}

// Nothing is sent twice by itself, not even when the connection breaks under a
// request with an idempotency key.
func TestNothingRepeatsItself(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]told{creates: {intent("requires_payment_method")}, confirms: {told{}}})
	result := s.provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.InDoubt, result.Verdict)
	require.Equal(t, "pi_1", result.TradeNo, "what to ask for")
	require.Equal(t, []string{creates, confirms}, s.calls())
}

// A failure of Stripe's own that it keeps under the key is got past with the
// attempt's next key; no other failure is.
func TestKeptFailures(t *testing.T) {
	t.Parallel()
	failure := problem(http.StatusInternalServerError, "api_error", "")
	s := newServer(t, map[string][]told{
		creates: {again(failure), intent("requires_payment_method")}, confirms: {intent("succeeded")},
	})
	require.Equal(t, psp.Succeeded, s.provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
	require.Equal(t, "payonce/order-1/1.2-create", s.requests()[1].key)
	require.Equal(t, "payonce/order-1/1.2-confirm", s.requests()[2].key)

	s = newServer(t, map[string][]told{creates: {failure}})
	require.Equal(t, psp.Transient, s.provider.Charge(t.Context(), order("order-1", 1000)).Verdict,
		"an intent that nobody confirmed moves no money")
	require.Len(t, s.requests(), 1)

	s = newServer(t, map[string][]told{creates: {again(failure)}})
	told := s.provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.Terminal, told.Verdict, "no repetition can do better")
	require.Equal(t, "payonce_intents_spent", told.Code)
	require.Len(t, s.requests(), 8, "and no further")
}

// Every inquiry cancels an intent. When all of an attempt are cancelled only
// another attempt can be charged, which the client is told.
func TestSpentAttempt(t *testing.T) {
	t.Parallel()
	provider, simulator := setup(t, nil)
	for range 10 {
		told := provider.Query(t.Context(), trade("order-1", 1000))
		require.Equal(t, psp.NotFound, told.Verdict)
		require.True(t, told.Barred)
	}
	require.Equal(t, psp.Terminal, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
	next := order("order-1", 1000)
	next.Attempt = 2
	require.Equal(t, psp.Succeeded, provider.Charge(t.Context(), next).Verdict)
	require.Len(t, simulator.Ledger(), 1)
}

func TestIntentStatuses(t *testing.T) {
	t.Parallel()
	const tried = `"last_payment_error":{"type":"card_error","code":"card_declined","decline_code":"lost_card","message":"told"}`
	for name, test := range map[string]struct {
		answer  told
		verdict psp.Verdict
		code    string
		cancels bool
	}{
		"paid":                   {intent("succeeded"), psp.Succeeded, "succeeded", false},
		"at work":                {intent("processing"), psp.Pending, "processing", false},
		"authentication":         {intent("requires_action"), psp.Pending, "requires_action", false},
		"untried":                {intent("requires_payment_method"), psp.NotFound, "requires_payment_method", true},
		"to be confirmed":        {intent("requires_confirmation"), psp.NotFound, "requires_confirmation", true},
		"refused":                {intent("requires_payment_method", tried), psp.Terminal, "lost_card", true},
		"cancelled":              {intent("canceled"), psp.Terminal, "canceled", false},
		"authorized only":        {intent("requires_capture"), psp.InDoubt, "requires_capture", false},
		"something new":          {intent("something_new"), psp.InDoubt, "something_new", false},
		"no status":              {intent(""), psp.InDoubt, "", false},
		"another order's":        {told{http.StatusOK, `{"id":"pi_1","status":"succeeded","metadata":{"order_id":"order-2","attempt":"1"}}`, false}, psp.InDoubt, "", false},
		"another attempt's":      {told{http.StatusOK, `{"id":"pi_1","status":"succeeded","metadata":{"order_id":"order-1","attempt":"2"}}`, false}, psp.InDoubt, "", false},
		"an amount that is none": {told{http.StatusOK, `{"id":"pi_1","status":"succeeded","amount_received":1,"currency":"isk","metadata":{"order_id":"order-1","attempt":"1"}}`, false}, psp.InDoubt, "succeeded", false},
		"no such intent":         {problem(http.StatusNotFound, "invalid_request_error", "resource_missing"), psp.InDoubt, "resource_missing", false},
		"a failure":              {problem(http.StatusInternalServerError, "api_error", ""), psp.InDoubt, "api_error", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, map[string][]told{reads: {test.answer}, cancels: {intent("canceled")}})
			asked := trade("order-1", 1000)
			asked.TradeNo = "pi_1"
			result := s.provider.Query(t.Context(), asked)
			require.Equal(t, test.verdict, result.Verdict, "%+v", result)
			require.Equal(t, test.code, result.Code)
			if test.cancels {
				require.Equal(t, []string{reads, cancels}, s.calls())
			} else {
				require.Equal(t, []string{reads}, s.calls())
			}
		})
	}
}

// An intent that is judged unpaid is cancelled first. Where that fails, a
// confirm may still be on its way: nothing is known.
func TestUnpaidOnlyOnceCancelled(t *testing.T) {
	t.Parallel()
	for _, answer := range []told{
		problem(http.StatusBadRequest, "invalid_request_error", "payment_intent_unexpected_state"),
		problem(http.StatusInternalServerError, "api_error", ""), {},
	} {
		s := newServer(t, map[string][]told{creates: {intent("requires_payment_method")}, cancels: {answer}})
		require.Equal(t, psp.InDoubt, s.provider.Query(t.Context(), trade("order-1", 1000)).Verdict)
	}
}

// A query and a charge that was cancelled by one: the charge goes on with the
// attempt's next intent.
func TestChargeAfterAQueryFoundNothing(t *testing.T) {
	t.Parallel()
	provider, simulator := setup(t, nil)
	require.Equal(t, psp.NotFound, provider.Query(t.Context(), trade("order-1", 1000)).Verdict)
	require.Equal(t, psp.Succeeded, provider.Charge(t.Context(), order("order-1", 1000)).Verdict)
	require.Equal(t, psp.Succeeded, provider.Query(t.Context(), trade("order-1", 1000)).Verdict)
	require.Len(t, simulator.Ledger(), 1)
}

// Once Stripe may have forgotten the key, a create would make a second intent:
// the list of all intents since the charge began is read instead, to its end.
func TestQueryAfterTheKeyIsForgotten(t *testing.T) {
	t.Parallel()
	old := trade("order-1", 1000)
	old.StartedAt = time.Now().Add(-25 * time.Hour)
	foreign := strings.ReplaceAll(intentJSON("pi_9", "succeeded"), "order-1", "order-9")
	canceled := intentJSON("pi_2", "canceled")
	refused := intentJSON("pi_3", "canceled", `"last_payment_error":{"type":"card_error","code":"card_declined"}`)
	page := list(foreign)
	page.body = strings.Replace(page.body, `"has_more":false`, `"has_more":true`, 1)
	for name, test := range map[string]struct {
		answers []told
		verdict psp.Verdict
		pages   int
	}{
		"nothing":                   {[]told{list()}, psp.NotFound, 1},
		"others'":                   {[]told{list(foreign)}, psp.NotFound, 1},
		"paid":                      {[]told{list(foreign, canceled, intentJSON("pi_1", "succeeded"))}, psp.Succeeded, 1},
		"paid, on the second page":  {[]told{page, list(intentJSON("pi_1", "succeeded"))}, psp.Succeeded, 2},
		"cancelled, never tried":    {[]told{list(canceled)}, psp.NotFound, 1},
		"refused":                   {[]told{list(canceled, refused)}, psp.Terminal, 1},
		"the second page is broken": {[]told{page, problem(http.StatusInternalServerError, "api_error", "")}, psp.InDoubt, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, map[string][]told{lists: test.answers})
			result := s.provider.Query(t.Context(), old)
			require.Equal(t, test.verdict, result.Verdict, "%+v", result)
			require.Len(t, s.requests(), test.pages)
			require.Equal(t, fmt.Sprint(old.StartedAt.Add(-10*time.Minute).Unix()), s.requests()[0].form.Get("created[gte]"))
		})
	}
}
