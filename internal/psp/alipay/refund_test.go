package alipay_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestRefunds(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict)
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict)
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict, "the same number is the same refund")
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r2", 300)).Verdict, "another number is another refund")
	other := provider.Refund(t.Context(), refundOf("r1", 100))
	require.Equal(t, psp.Terminal, other.Verdict, "the same number over another amount")
	require.Equal(t, "ACQ.DISCORDANT_REPEAT_REQUEST", other.Code)
	require.Equal(t, psp.Succeeded, provider.QueryRefund(t.Context(), refundOf("r2", 300)).Verdict)
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), refundOf("r3", 401)).Verdict)
	require.Len(t, simulator.Ledger(), 3)

	require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "refund", Fault: "drop_after"}))
	require.Equal(t, psp.InDoubt, provider.Refund(t.Context(), refundOf("r4", 100)).Verdict)
	require.Equal(t, psp.Succeeded, provider.QueryRefund(t.Context(), refundOf("r4", 100)).Verdict)
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r4", 100)).Verdict)
	require.Len(t, simulator.Ledger(), 4)
}

func TestRefundFaults(t *testing.T) {
	t.Parallel()
	for fault, verdict := range map[string]psp.Verdict{
		"error_before": psp.InDoubt, "error_after": psp.InDoubt, "drop_after": psp.InDoubt, "decline": psp.Terminal,
	} {
		provider, simulator, _ := setup(t, nil)
		provider.Charge(t.Context(), order("order-1", 1000))
		require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "refund", Fault: fault}))
		require.Equal(t, verdict, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict, fault)
	}
}

func TestRefundOfNoTrade(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict)
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict)
}

// fund_change N is no success by itself: the query decides, and where it finds
// nothing the refund is on its way.
func TestRefundWithoutChangeOfFunds(t *testing.T) {
	t.Parallel()
	for query, verdict := range map[string]psp.Verdict{
		`{"code":"10000","refund_status":"REFUND_SUCCESS","refund_amount":"3.00"}`: psp.Succeeded,
		`{"code":"10000","refund_status":"REFUND_SUCCESS","refund_amount":"3.01"}`: psp.InDoubt,
		`{"code":"10000","refund_status":"REFUND_PROCESSING"}`:                     psp.InDoubt,
		`{"code":"10000"}`: psp.InDoubt,
		`{"code":"20000","sub_code":"ACQ.SYSTEM_ERROR"}`: psp.InDoubt,
	} {
		g := newGateway(t, map[string]string{
			"alipay.trade.refund":               `{"code":"10000","fund_change":"N"}`,
			"alipay.trade.fastpay.refund.query": query,
		})
		require.Equal(t, verdict, g.provider.Refund(t.Context(), refundOf("r1", 300)).Verdict, query)
	}
}
