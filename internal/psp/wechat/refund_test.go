package wechat_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestRefunds(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	provider.Charge(t.Context(), order("order-1", 1000))
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict)
	first := provider.Refund(t.Context(), refundOf("r1", 300))
	require.Equal(t, psp.Pending, first.Verdict, "WeChat Pay only takes it: %+v", first)
	require.NotEmpty(t, first.TradeNo)
	again := provider.Refund(t.Context(), refundOf("r1", 300))
	require.Equal(t, psp.Succeeded, again.Verdict, "the same number is the same refund")
	require.Equal(t, cny(300), again.Paid)
	require.Equal(t, psp.Pending, provider.Refund(t.Context(), refundOf("r2", 300)).Verdict, "another number is another refund")
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), refundOf("r1", 100)).Verdict, "the same number over another amount")
	require.Equal(t, psp.Succeeded, provider.QueryRefund(t.Context(), refundOf("r2", 300)).Verdict)
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), refundOf("r3", 401)).Verdict)
	require.Len(t, simulator.Ledger(), 3)

	require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "wechat", Op: "refund", Fault: "drop_after"}))
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
		require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "wechat", Op: "refund", Fault: fault}))
		require.Equal(t, verdict, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict, fault)
	}
}

func TestRefundOfNoOrder(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	require.Equal(t, psp.Terminal, provider.Refund(t.Context(), refundOf("r1", 300)).Verdict)
	require.Equal(t, psp.NotFound, provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict)
}

// refunded is a refund as WeChat Pay tells it.
func refunded(t *testing.T, change map[string]any) told {
	t.Helper()
	content := map[string]any{
		"refund_id": "5030", "out_refund_no": "r1", "transaction_id": "4200", "out_trade_no": "order-1", "status": "SUCCESS",
		"channel": "ORIGINAL", "user_received_account": "-", "create_time": "2026-01-02T15:04:05+08:00",
		"amount": map[string]any{
			"total": 1000, "refund": 300, "payer_total": 900, "payer_refund": 270, "settlement_refund": 300,
			"settlement_total": 1000, "discount_refund": 0, "currency": "CNY",
		},
	}
	for name, value := range change {
		content[name] = value
	}
	body, err := json.Marshal(content)
	require.NoError(t, err)
	return told{status: http.StatusOK, body: string(body)}
}

func TestRefundStates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  map[string]any
		verdict psp.Verdict
	}{
		"made":            {nil, psp.Succeeded},
		"under way":       {map[string]any{"status": "PROCESSING"}, psp.Pending},
		"did not arrive":  {map[string]any{"status": "ABNORMAL"}, psp.Pending},
		"closed":          {map[string]any{"status": "CLOSED"}, psp.Terminal},
		"something new":   {map[string]any{"status": "SOMETHING_NEW"}, psp.InDoubt},
		"no state":        {map[string]any{"status": nil}, psp.InDoubt},
		"another number":  {map[string]any{"out_refund_no": "r2"}, psp.InDoubt},
		"another order":   {map[string]any{"out_trade_no": "order-2"}, psp.InDoubt},
		"another amount":  {map[string]any{"amount": map[string]any{"refund": 301, "total": 1000, "currency": "CNY"}}, psp.InDoubt},
		"another money":   {map[string]any{"amount": map[string]any{"refund": 300, "total": 1000, "currency": "USD"}}, psp.InDoubt},
		"closed, another": {map[string]any{"status": "CLOSED", "amount": map[string]any{"refund": 1, "currency": "CNY"}}, psp.InDoubt},
		"no amount":       {map[string]any{"amount": nil}, psp.InDoubt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := refunded(t, test.change)
			s := newServer(t, map[string]told{"POST /v3/refund/domestic/refunds": answer, "GET /v3/refund/domestic/refunds/r1": answer})
			require.Equal(t, test.verdict, s.provider.Refund(t.Context(), refundOf("r1", 300)).Verdict)
			require.Equal(t, test.verdict, s.provider.QueryRefund(t.Context(), refundOf("r1", 300)).Verdict)
		})
	}
}

func TestRefundRequest(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string]told{"POST /v3/refund/domestic/refunds": refunded(t, nil)})
	request := refundOf("r1", 300)
	s.provider.Refund(t.Context(), request)
	require.JSONEq(t, `{"out_trade_no":"order-1","out_refund_no":"r1","reason":"returned","notify_url":"`+notifyURL+`",
		"amount":{"refund":300,"total":1000,"currency":"CNY"}}`, s.requests()[0].body)

	// A long reason is cut between two characters and does not fail the refund.
	request.Reason = strings.Repeat("退", 27)
	s.provider.Refund(t.Context(), request)
	var sent struct{ Reason string }
	require.NoError(t, json.Unmarshal([]byte(s.requests()[1].body), &sent))
	require.Equal(t, strings.Repeat("退", 26), sent.Reason)
	require.True(t, utf8.ValidString(sent.Reason))
}
