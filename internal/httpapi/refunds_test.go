package httpapi_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func refundBody(orderID, refundID string, amount int) string {
	if refundID == "" {
		return fmt.Sprintf(`{"order_id":%q,"amount":%d}`, orderID, amount)
	}
	return fmt.Sprintf(`{"order_id":%q,"refund_id":%q,"amount":%d}`, orderID, refundID, amount)
}

// paidOrder makes an order that is known to be paid.
func (h *harness) paidOrder(orderID string, amount int) {
	h.t.Helper()
	h.arm("charge", "drop_after", 1)
	got := h.charge("pay-"+orderID, chargeBody(orderID, amount))
	require.Equal(h.t, http.StatusCreated, got.status, got.body)
	require.Equal(h.t, "paid", h.orderStatus(orderID))
}

func (h *harness) refunds(orderID string) (count, total int) {
	h.t.Helper()
	var ledger []struct {
		OutTradeNo string `json:"out_trade_no"`
		Kind       string `json:"kind"`
		Amount     int    `json:"amount"`
	}
	h.readSim("/ledger", &ledger)
	for _, entry := range ledger {
		if entry.OutTradeNo == orderID && entry.Kind == "refund" {
			count++
			total += entry.Amount
		}
	}
	return count, total
}

func TestFF28_TwoEqualPartialRefunds(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string][2]string{"numbered": {"r1", "r2"}, "not numbered": {"", ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := setup(t)
			h.paidOrder("order-1", 1000)
			first := h.post("/v1/refunds", "rk1", refundBody("order-1", ids[0], 300))
			require.Equal(t, http.StatusCreated, first.status, first.body)
			require.Equal(t, "partially_refunded", h.orderStatus("order-1"))
			second := h.post("/v1/refunds", "rk2", refundBody("order-1", ids[1], 300))
			require.Equal(t, http.StatusCreated, second.status, second.body)
			require.NotEqual(t, first.field(t, "refund_id"), second.field(t, "refund_id"))
			again := h.post("/v1/refunds", "rk2", refundBody("order-1", ids[1], 300))
			require.True(t, again.replayed())
			require.Equal(t, second.body, again.body)
			count, total := h.refunds("order-1")
			require.Equal(t, 2, count)
			require.Equal(t, 600, total)
			last := h.post("/v1/refunds", "rk3", refundBody("order-1", "", 400))
			require.Equal(t, http.StatusCreated, last.status, last.body)
			require.Equal(t, "refunded", h.orderStatus("order-1"))
			require.Equal(t, 3, h.sum("SELECT count(*) FROM payments.outbox WHERE kind = 'refund_notice'"))
		})
	}
}

func TestFF28_RefundInDoubtIsAskedAbout(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"r1", ""} {
		h := setup(t)
		h.paidOrder("order-1", 1000)
		h.arm("refund", "drop_after", 1)
		h.arm("query", "drop_after", 1)
		got := h.post("/v1/refunds", "rk1", refundBody("order-1", number, 300))
		require.Equal(t, http.StatusGatewayTimeout, got.status, got.body)
		require.Equal(t, "in_doubt", h.keyState("rk1"))
		got = h.post("/v1/refunds", "rk1", refundBody("order-1", number, 300))
		require.Equal(t, http.StatusCreated, got.status, got.body)
		count, total := h.refunds("order-1")
		require.Equal(t, 1, count)
		require.Equal(t, 300, total)
	}
}

func TestRefundFaultsBeforeTheMoneyMoved(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.paidOrder("order-1", 1000)
	h.arm("refund", "error_before", 1)
	got := h.post("/v1/refunds", "rk1", refundBody("order-1", "r1", 300))
	require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
	require.Empty(t, h.keyState("rk1"))
	got = h.post("/v1/refunds", "rk1", refundBody("order-1", "r1", 300))
	require.Equal(t, http.StatusCreated, got.status, got.body)

	h.arm("refund", "decline", 1)
	got = h.post("/v1/refunds", "rk2", refundBody("order-1", "r2", 300))
	require.Equal(t, http.StatusPaymentRequired, got.status, got.body)
	require.Equal(t, "refund_declined", got.field(t, "code"))
	require.True(t, h.post("/v1/refunds", "rk2", refundBody("order-1", "r2", 300)).replayed())
	count, _ := h.refunds("order-1")
	require.Equal(t, 1, count)
}

func TestRefundsRefusedByTheOrder(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.paidOrder("order-1", 1000)
	h.paidOrder("order-2", 1000)
	require.Equal(t, http.StatusCreated, h.charge("k3", chargeBody("order-3", 1000)).status)
	require.Equal(t, http.StatusCreated, h.post("/v1/refunds", "rk1", refundBody("order-1", "r1", 600)).status)
	keys := h.countKeys()
	tests := []struct {
		name, body string
		status     int
		code       string
	}{
		{"unknown order", refundBody("order-9", "", 1), http.StatusNotFound, "order_unknown"},
		{"not paid yet", refundBody("order-3", "", 1), http.StatusConflict, "order_not_paid"},
		{"above the capture", refundBody("order-1", "", 401), http.StatusConflict, "refund_exceeds_capture"},
		{"the number of another order", refundBody("order-2", "r1", 600), http.StatusConflict, "refund_mismatch"},
		{"the number of another amount", refundBody("order-1", "r1", 1), http.StatusConflict, "refund_mismatch"},
		{"made under another key", refundBody("order-1", "r1", 600), http.StatusConflict, "refund_exists"},
		{"no amount", `{"order_id":"order-1"}`, http.StatusBadRequest, "field_invalid"},
		{"unknown field", `{"order_id":"order-1","amount":1,"colour":"red"}`, http.StatusBadRequest, "field_invalid"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := h.post("/v1/refunds", "rk-"+test.code, test.body)
			require.Equal(t, test.status, got.status, got.body)
			require.Equal(t, test.code, got.field(t, "code"))
		})
	}
	require.Equal(t, keys, h.countKeys(), "no refused request used a key up")
	other := http.Header{"Idempotency-Key": {"rk9"}, "Authorization": {"Bearer " + otherAPIKey}}
	got, err := h.send(t.Context(), http.MethodPost, "/v1/refunds", refundBody("order-1", "", 1), other)
	require.NoError(t, err)
	require.Equal(t, "order_unknown", got.field(t, "code"))
}

func TestFF12_OneKeyOnTwoPaths(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.paidOrder("order-1", 1000)
	got := h.post("/v1/refunds", "pay-order-1", refundBody("order-1", "", 1))
	require.Equal(t, http.StatusUnprocessableEntity, got.status, got.body)
	shown, err := h.send(t.Context(), http.MethodGet, "/v1/orders/order-1", "", key("pay-order-1"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, shown.status, "a key on GET is ignored")
}

func TestRefundsInParallelNeverExceedTheCapture(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.paidOrder("order-1", 1000)
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			_, _ = h.send(t.Context(), http.MethodPost, "/v1/refunds", refundBody("order-1", "", 300), key(fmt.Sprintf("rk%d", i)))
		})
	}
	wait.Wait()
	count, total := h.refunds("order-1")
	require.Equal(t, 3, count)
	require.Equal(t, 900, total)
}
