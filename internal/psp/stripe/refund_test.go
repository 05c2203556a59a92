package stripe_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/pspsim"
)

func withTrade(request psp.RefundRequest, number string) psp.RefundRequest {
	request.Trade.TradeNo = number
	return request
}

func TestRefunds(t *testing.T) {
	t.Parallel()
	provider, simulator := setup(t, nil)
	provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict)
	first := provider.Refund(t.Context(), refundOf("r1", 300))
	require.Equal(t, psp.Succeeded, first.Verdict, "%+v", first)
	require.Equal(t, usd(300), first.Paid)
	again := provider.Refund(t.Context(), refundOf("r1", 300))
	require.Equal(t, first, again, "the same number is the same refund")
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r2", 300)).Verdict, "another number is another refund")
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), refundOf("r1", 100)).Verdict, "the same number over another amount")
	require.Equal(t, psp.Succeeded, provider.QueryRefund(t.Context(), refundOf("r2", 300)).Verdict)
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), refundOf("r3", 401)).Verdict, "more than is left")
	require.Len(t, simulator.Ledger(), 3)
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r4", 400)).Verdict)
	spent := provider.Refund(t.Context(), refundOf("r5", 1))
	require.Equal(t, psp.Terminal, spent.Verdict)
	require.Equal(t, "charge_already_refunded", spent.Code)
	require.Len(t, simulator.Ledger(), 4)
}

func TestRefundFaults(t *testing.T) {
	t.Parallel()
	for fault, test := range map[string]struct{ refund, query psp.Verdict }{
		"error_before": {psp.InDoubt, psp.NotFound},
		"error_after":  {psp.InDoubt, psp.Succeeded},
		"drop_after":   {psp.InDoubt, psp.Succeeded},
		"decline":      {psp.Terminal, psp.NotFound},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			provider, simulator := setup(t, nil)
			provider.Charge(t.Context(), order("order-1", 1000))
			require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "stripe", Op: "refund", Fault: fault}))
			result := provider.Refund(t.Context(), refundOf("r1", 300))
			require.Equal(t, test.refund, result.Verdict, "%+v", result)
			require.Equal(t, test.query, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict)
			if fault == "decline" {
				return
			}
			require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict)
			require.Len(t, simulator.Ledger(), 2, "one charge and one refund")
		})
	}
}

func TestRefundOfNoCharge(t *testing.T) {
	t.Parallel()
	provider, simulator := setup(t, nil)
	require.Equal(t, psp.InDoubt, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict, "a person has to look")
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), withTrade(refundOf("r1", 300), "pi_none")).Verdict)
	require.Empty(t, simulator.Ledger())
}

func refund(status string, more ...string) told {
	return told{status: http.StatusOK, body: refundJSON("r1", status, more...)}
}

func refundJSON(id, status string, more ...string) string {
	return fmt.Sprintf(`{"id":"re_1","object":"refund","amount":300,"currency":"usd","status":%q,"payment_intent":"pi_1",
		"metadata":{"order_id":"order-1","refund_id":%q}%s}`, status, id, strings.Join(append([]string{""}, more...), ","))
}

func TestRefundStates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer  told
		verdict psp.Verdict
		code    string
	}{
		"made":             {refund("succeeded"), psp.Succeeded, "succeeded"},
		"under way":        {refund("pending"), psp.Pending, "pending"},
		"for the buyer":    {refund("requires_action"), psp.Pending, "requires_action"},
		"failed":           {refund("failed"), psp.Terminal, "failed"},
		"failed, with why": {refund("failed", `"failure_reason":"expired_or_canceled_card"`), psp.Terminal, "expired_or_canceled_card"},
		"cancelled":        {refund("canceled"), psp.Terminal, "canceled"},
		"something new":    {refund("something_new"), psp.InDoubt, "something_new"},
		"another amount":   {told{http.StatusOK, strings.Replace(refundJSON("r1", "succeeded"), "300", "301", 1), false}, psp.InDoubt, "succeeded"},
		"another money":    {told{http.StatusOK, strings.Replace(refundJSON("r1", "succeeded"), "usd", "eur", 1), false}, psp.InDoubt, "succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, map[string][]told{refunds: {test.answer}, listsRef: {list(refundJSON("r0", "succeeded"), test.answer.body)}})
			for _, result := range []psp.Result{
				s.provider.Refund(t.Context(), withTrade(refundOf("r1", 300), "pi_1")),
				s.provider.QueryRefund(t.Context(), withTrade(refundOf("r1", 300), "pi_1")),
			} {
				require.Equal(t, test.verdict, result.Verdict, "%+v", result)
				require.Equal(t, test.code, result.Code)
			}
		})
	}
}

// A failure of Stripe's own under the key is never a reason to refund twice:
// only when the list has no such refund is it made under the next key.
func TestKeptRefundFailure(t *testing.T) {
	t.Parallel()
	failure := again(problem(http.StatusInternalServerError, "api_error", ""))
	for name, test := range map[string]struct {
		listed  told
		verdict psp.Verdict
		keys    int
	}{
		"made":          {list(refundJSON("r1", "succeeded")), psp.Succeeded, 1},
		"not made":      {list(), psp.Succeeded, 2},
		"nobody knows":  {problem(http.StatusInternalServerError, "api_error", ""), psp.InDoubt, 1},
		"another's one": {list(refundJSON("r2", "succeeded")), psp.Succeeded, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, map[string][]told{refunds: {failure, refund("succeeded")}, listsRef: {test.listed}})
			result := s.provider.Refund(t.Context(), withTrade(refundOf("r1", 300), "pi_1"))
			require.Equal(t, test.verdict, result.Verdict, "%+v", result)
			var sent []string
			for _, each := range s.requests() {
				if each.call == refunds {
					sent = append(sent, each.key)
				}
			}
			require.Equal(t, []string{"payonce/order-1/refund/r1", "payonce/order-1/refund/r1/2"}[:test.keys], sent)
		})
	}
}

func TestRefundRequest(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]told{refunds: {refund("succeeded")}})
	request := withTrade(refundOf("r1", 300), "pi_1")
	request.Reason = strings.Repeat("退", 501)
	require.Equal(t, psp.Succeeded, s.provider.Refund(t.Context(), request).Verdict)
	form := s.requests()[0].form
	require.Equal(t, "300", form.Get("amount"))
	require.Equal(t, "pi_1", form.Get("payment_intent"))
	require.Equal(t, "r1", form.Get("metadata[refund_id]"))
	require.Equal(t, strings.Repeat("退", 500), form.Get("metadata[reason]"), "cut between two characters")
	require.Empty(t, form.Get("reason"), "Stripe knows three reasons only")
}
