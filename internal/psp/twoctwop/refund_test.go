package twoctwop_test

import (
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/twoctwop"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestRefunds(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	provider.Charge(t.Context(), order("order1", 1000))
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict)
	first := provider.Refund(t.Context(), refundOf("r1", 300))
	require.Equal(t, psp.Succeeded, first.Verdict, "%+v", first)
	require.Equal(t, sgd(300), first.Paid)
	require.Equal(t, first, provider.Refund(t.Context(), refundOf("r1", 300)), "the same number is the same refund")
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r2", 300)).Verdict, "another number is another refund")
	other := provider.Refund(t.Context(), refundOf("r1", 100))
	require.Equal(t, psp.Terminal, other.Verdict, "the same number over another amount")
	require.Equal(t, "11", other.Code)
	asked := provider.QueryRefund(t.Context(), refundOf("r2", 300))
	require.Equal(t, psp.Succeeded, asked.Verdict)
	require.Equal(t, sgd(300), asked.Paid)
	require.Equal(t, psp.InDoubt, provider.QueryRefund(t.Context(), refundOf("r2", 299)).Verdict, "a number over another amount")
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), refundOf("r3", 300)).Verdict)
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), refundOf("r3", 401)).Verdict)
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), refundOf(strings.Repeat("r", 101), 1)).Verdict)
	require.Len(t, simulator.Ledger(), 3)

	require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "2c2p", Op: "refund", Fault: "drop_after"}))
	require.Equal(t, psp.InDoubt, provider.Refund(t.Context(), refundOf("r4", 100)).Verdict)
	require.Equal(t, psp.Succeeded, provider.QueryRefund(t.Context(), refundOf("r4", 100)).Verdict)
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r4", 100)).Verdict)
	require.Len(t, simulator.Ledger(), 4)
}

func TestRefundFaults(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct{ refund, asked psp.Verdict }{
		"error_before": {psp.InDoubt, psp.NotFound}, "error_after": {psp.InDoubt, psp.Succeeded},
		"drop_after": {psp.InDoubt, psp.Succeeded}, "decline": {psp.Terminal, psp.NotFound},
	} {
		provider, simulator, _ := setup(t, nil)
		provider.Charge(t.Context(), order("order1", 1000))
		require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "2c2p", Op: "refund", Fault: fault}))
		require.Equal(t, want.refund, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict, fault)
		require.Equal(t, want.asked, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict, fault)
		require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "2c2p", Op: "query", Fault: "error_before"}))
		require.Equal(t, psp.InDoubt, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict, fault)
	}
}

func TestRefundOfNoPayment(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict)
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict)
}

// Before the acquirer's cut-off a payment is voided, as a whole only.
func TestUnsettledPaymentIsVoided(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, func(_ *twoctwop.Config, o *pspsim.Options) { o.Unsettled = true })
	provider.Charge(t.Context(), order("order1", 1000))
	part := provider.Refund(t.Context(), refundOf("r1", 300))
	require.Equal(t, psp.Terminal, part.Verdict)
	require.Equal(t, "12", part.Code)
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), refundOf("r2", 1000)).Verdict)
	whole := provider.Refund(t.Context(), refundOf("r2", 1000))
	require.Equal(t, psp.Succeeded, whole.Verdict, "%+v", whole)
	require.Equal(t, sgd(1000), whole.Paid)
	require.Equal(t, psp.Succeeded, provider.QueryRefund(t.Context(), refundOf("r2", 1000)).Verdict)
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict)
	again := provider.Refund(t.Context(), refundOf("r2", 1000))
	require.Equal(t, psp.InDoubt, again.Verdict, "voided already: to be asked about")
	require.Len(t, simulator.Ledger(), 2)
}

func xmlAnswer(kind, more string) string {
	return "<PaymentProcessResponse><processType>" + kind + "</processType><invoiceNo>order1</invoiceNo>" + more + "</PaymentProcessResponse>"
}

// A code of success is one by the status that it leads to.
func TestRefundStatuses(t *testing.T) {
	t.Parallel()
	var answer string
	provider := speakingXML(t, func() string { return answer })
	for told, verdict := range map[string]psp.Verdict{
		"<respCode>00</respCode><status>RF</status>":             psp.Succeeded,
		"<respCode>00</respCode><status>RP</status>":             psp.Pending,
		"<respCode>00</respCode><status>REFUND_PENDING</status>": psp.Pending,
		"<respCode>42</respCode>":                                psp.Pending,
		"<respCode>00</respCode><status>RR1</status>":            psp.Terminal,
		"<respCode>00</respCode><status>S</status>":              psp.InDoubt,
		"<respCode>00</respCode>":                                psp.InDoubt,
		"<respCode>77</respCode><status>RF</status>":             psp.InDoubt,
		"<status>RF</status>":                                    psp.InDoubt,
		"<respCode>96</respCode>":                                psp.Transient,
		"<respCode>46</respCode>":                                psp.Terminal,
	} {
		answer = xmlAnswer("R", told)
		require.Equal(t, verdict, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict, told)
	}
	for _, told := range []string{
		xmlAnswer("V", "<respCode>00</respCode><status>RF</status>"),
		"<PaymentProcessResponse><respCode>00</respCode><status>RF</status><invoiceNo>order2</invoiceNo><processType>R</processType></PaymentProcessResponse>",
		"<Other/>", "", "no XML",
	} {
		answer = told
		require.Equal(t, psp.InDoubt, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict, told)
	}
}

// Which refund of a list is ours follows from the number on it; one of the same
// amount without a number might be.
func TestQueryRefundReadsTheList(t *testing.T) {
	t.Parallel()
	var answer string
	provider := speakingXML(t, func() string { return answer })
	entry := func(amount, status, number string) string {
		return "<refund><amount>" + amount + "</amount><status>" + status + "</status><userDefined1>" + number + "</userDefined1></refund>"
	}
	for list, verdict := range map[string]psp.Verdict{
		"":                         psp.NotFound,
		entry("3.00", "RF", "r1"):  psp.Succeeded,
		entry("3.00", "RP", "r1"):  psp.Pending,
		entry("3.00", "RFF", "r1"): psp.Terminal,
		entry("3.00", "?", "r1"):   psp.InDoubt,
		entry("4.00", "RF", "r1"):  psp.InDoubt,
		entry("what", "RF", "r1"):  psp.InDoubt,
		entry("3.00", "RF", "r2"):  psp.NotFound,
		entry("3.00", "RF", ""):    psp.InDoubt,
		entry("3.00", "RR", ""):    psp.NotFound,
		entry("4.00", "RF", ""):    psp.NotFound,
		entry("what", "RF", ""):    psp.InDoubt,
		entry("3.00000", "RF", "") + entry("3.00", "RF", "r1"): psp.Succeeded,
	} {
		answer = xmlAnswer("RS", "<respCode>00</respCode><status>RF</status><refundList>"+list+"</refundList>")
		require.Equal(t, verdict, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict, list)
	}
	for _, code := range []string{"12", "17", "44", "96", "99", "77", ""} {
		answer = xmlAnswer("RS", "<respCode>"+code+"</respCode>")
		require.Equal(t, psp.InDoubt, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict, "a refused question: %s", code)
	}
}

// Only the documented algorithms are taken, whatever the answer says.
func TestMaintenanceAlgorithmsArePinned(t *testing.T) {
	t.Parallel()
	success := func() string { return xmlAnswer("R", "<respCode>00</respCode><status>RF</status>") }
	for name, provider := range map[string]*twoctwop.Provider{
		"RS256":        speakingSealed(t, jose.RS256, jose.RSA_OAEP, jose.A256GCM, success),
		"PS512":        speakingSealed(t, jose.PS512, jose.RSA_OAEP, jose.A256GCM, success),
		"RSA-OAEP-256": speakingSealed(t, jose.PS256, jose.RSA_OAEP_256, jose.A256GCM, success),
		"A128GCM":      speakingSealed(t, jose.PS256, jose.RSA_OAEP, jose.A128GCM, success),
	} {
		require.Equal(t, psp.InDoubt, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict, name)
	}
	require.Equal(t, psp.Succeeded, speakingXML(t, success).Refund(t.Context(), refundOf("r1", 300)).Verdict)
}
