package httpapi_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/pspsim"
)

// providerCase is what differs between the providers in the one suite that
// each has to pass. Its order ids have only letters and digits, since 2C2P
// takes nothing else.
type providerCase struct {
	currency string
	// fields are the provider's own request fields.
	fields map[string]any
	// charged is how a charge that met no trouble is answered: pending where the
	// provider only makes a trade, succeeded where it charges at once.
	charged string
	// acknowledged is how a notification is acknowledged, to the byte; left out
	// where the provider takes any 200.
	acknowledged acknowledgement
	// stories are events that follow a payment, by how they leave the order.
	stories map[string][]string
}

var providerCases = map[string]providerCase{
	"alipay": {
		currency: "CNY", charged: "pending",
		acknowledged: acknowledgement{Status: http.StatusOK, ContentType: "text/plain", Body: "success"},
		stories: map[string][]string{
			"paid": {"waiting", "closed", "paid"}, "partially_refunded": {"refund_partial", "finished", "refund_partial"},
			"refunded": {"refund_full", "paid", "refund_full"},
		},
	},
	"wechat": {
		currency: "CNY", charged: "pending",
		acknowledged: acknowledgement{Status: http.StatusOK, ContentType: "application/json", Body: `{"code":"SUCCESS"}`},
		stories: map[string][]string{
			"paid": {"paid"}, "partially_refunded": {"refund_partial", "paid", "refund_partial"},
			"refunded": {"refund_full", "paid", "refund_full"},
		},
	},
	"2c2p": {
		currency: "SGD", charged: "pending",
		acknowledged: acknowledgement{Status: http.StatusOK, ContentType: "text/plain", Body: "OK"},
		stories:      map[string][]string{"paid": {"failed", "waiting", "closed", "paid"}},
	},
	"stripe": {
		currency: "USD", charged: "succeeded", fields: map[string]any{"payment_method": "pm_card_visa"},
		acknowledged: acknowledgement{Status: http.StatusOK, ContentType: "application/json", Body: "{}"},
		stories: map[string][]string{
			"paid": {"waiting", "failed", "closed", "paid"}, "partially_refunded": {"refund_partial", "failed", "refund_partial"},
			"refunded": {"refund_full", "paid", "refund_full"},
		},
	},
}

func (c providerCase) body(t *testing.T, provider, orderID string, amount int) string {
	t.Helper()
	request := map[string]any{
		"order_id": orderID, "provider": provider, "amount": amount, "currency": c.currency, "subject": "Tea",
	}
	for name, value := range c.fields {
		request[name] = value
	}
	body, err := json.Marshal(request)
	require.NoError(t, err)
	return string(body)
}

func (h *harness) armFor(provider, op, fault string) {
	h.t.Helper()
	h.armWith(map[string]any{"provider": provider, "op": op, "fault": fault, "times": 1, "delay_ms": 50})
}

// Every registered provider is in the table.
func TestEveryProviderIsInTheSuite(t *testing.T) {
	t.Parallel()
	keys, err := simulatorKeys()
	require.NoError(t, err)
	all, err := providers.Simulated(keys, "http://127.0.0.1:9", "http://127.0.0.1:9", nil)
	require.NoError(t, err)
	for _, provider := range all {
		require.Contains(t, providerCases, provider.Name())
	}
	require.Len(t, providerCases, len(all))
}

func TestProviders(t *testing.T) {
	t.Parallel()
	for name, c := range providerCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("success", func(t *testing.T) { t.Parallel(); c.success(t, name) })
			t.Run("decline", func(t *testing.T) { t.Parallel(); c.decline(t, name) })
			for _, fault := range []string{"error_before", "error_after", "drop_after", "delay"} {
				t.Run("charge "+fault, func(t *testing.T) { t.Parallel(); c.chargeFault(t, name, fault) })
				t.Run("query "+fault, func(t *testing.T) { t.Parallel(); c.queryFault(t, name, fault) })
				t.Run("refund "+fault, func(t *testing.T) { t.Parallel(); c.refundFault(t, name, fault) })
			}
			t.Run("in doubt, retried", func(t *testing.T) { t.Parallel(); c.inDoubt(t, name) })
			t.Run("in doubt, retried with a new key", func(t *testing.T) { t.Parallel(); c.inDoubtNewKey(t, name) })
			t.Run("in doubt, reconciled", func(t *testing.T) { t.Parallel(); c.reconciled(t, name) })
			t.Run("refund in doubt, reconciled", func(t *testing.T) { t.Parallel(); c.refundReconciled(t, name) })
			t.Run("late", func(t *testing.T) { t.Parallel(); c.late(t, name) })
			t.Run("never came", func(t *testing.T) { t.Parallel(); c.neverCame(t, name) })
			t.Run("refund late", func(t *testing.T) { t.Parallel(); c.refundLate(t, name) })
			t.Run("refund late, then refused", func(t *testing.T) { t.Parallel(); c.refundLateRefused(t, name) })
			t.Run("another tab", func(t *testing.T) { t.Parallel(); c.anotherTab(t, name) })
			t.Run("lost notification", func(t *testing.T) { t.Parallel(); c.lostNotification(t, name) })
			t.Run("refunds", func(t *testing.T) { t.Parallel(); c.refunds(t, name) })
			t.Run("notifications", func(t *testing.T) { t.Parallel(); c.notifications(t, name) })
			t.Run("FF-21", func(t *testing.T) { t.Parallel(); c.notificationThatFails(t, name) })
			for end, events := range c.stories {
				t.Run("FF-23 "+end, func(t *testing.T) { t.Parallel(); c.story(t, name, end, events) })
			}
			t.Run("forged", func(t *testing.T) { t.Parallel(); c.forged(t, name) })
			t.Run("wrong keys", func(t *testing.T) { t.Parallel(); c.wrongKeys(t, name) })
		})
	}
}

func (c providerCase) success(t *testing.T, provider string) {
	h := setup(t)
	got := h.charge("k1", c.body(t, provider, "order1", 1000))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, c.charged, got.field(t, "status"), got.body)
	again := h.charge("k1", c.body(t, provider, "order1", 1000))
	require.True(t, again.replayed())
	require.Equal(t, got.body, again.body)
	require.Equal(t, 1, h.charges("order1"))
}

func (c providerCase) decline(t *testing.T, provider string) {
	h := setup(t)
	h.armFor(provider, "charge", "decline")
	got := h.charge("k1", c.body(t, provider, "order1", 1000))
	require.Equal(t, http.StatusPaymentRequired, got.status, got.body)
	again := h.charge("k1", c.body(t, provider, "order1", 1000))
	require.True(t, again.replayed())
	require.Equal(t, got.body, again.body)
	require.Zero(t, h.charges("order1"))
	// Another attempt is not answered with the first one's refusal.
	got = h.charge("k2", c.body(t, provider, "order1", 1000))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, 1, h.charges("order1"))
}

func (c providerCase) chargeFault(t *testing.T, provider, fault string) {
	h := setup(t)
	h.armFor(provider, "charge", fault)
	got := h.charge("k1", c.body(t, provider, "order1", 1000))
	if fault == "error_before" {
		require.GreaterOrEqual(t, got.status, 500, got.body)
		require.Zero(t, h.charges("order1"))
		got = h.charge("k1", c.body(t, provider, "order1", 1000))
	}
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, 1, h.charges("order1"))
}

func (c providerCase) queryFault(t *testing.T, provider, fault string) {
	h := setup(t)
	h.armFor(provider, "charge", "drop_after")
	h.armFor(provider, "query", fault)
	got := h.charge("k1", c.body(t, provider, "order1", 1000))
	if got.status == http.StatusGatewayTimeout {
		got = h.charge("k1", c.body(t, provider, "order1", 1000))
	}
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, 1, h.charges("order1"))
}

func (c providerCase) refundFault(t *testing.T, provider, fault string) {
	h := setup(t)
	c.paid(t, h, provider, "order1", 1000)
	h.armFor(provider, "refund", fault)
	got := h.post("/v1/refunds", "rk1", refundBody("order1", "", 300))
	for range 3 {
		if got.status < 500 {
			break
		}
		got = h.post("/v1/refunds", "rk1", refundBody("order1", "", 300))
	}
	require.Equal(t, http.StatusCreated, got.status, got.body)
	count, total := h.refunds("order1")
	require.Equal(t, 1, count)
	require.Equal(t, 300, total)
}

func (c providerCase) inDoubt(t *testing.T, provider string) {
	h := setup(t)
	c.leaveInDoubt(t, h, provider)
	var got answer
	for range 4 {
		got = h.charge("k1", c.body(t, provider, "order1", 1000))
		if got.status == http.StatusCreated {
			break
		}
	}
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, 1, h.charges("order1"))
}

// inDoubtNewKey: another key gets nothing done before the first one's charge has
// its end, and nothing twice after it.
func (c providerCase) inDoubtNewKey(t *testing.T, provider string) {
	h := setup(t)
	c.leaveInDoubt(t, h, provider)
	got := h.charge("k2", c.body(t, provider, "order1", 1000))
	require.Equal(t, http.StatusConflict, got.status, got.body)
	require.Equal(t, "charge_in_progress", got.field(t, "code"))
	require.Eventually(t, func() bool {
		h.reconcile()
		return h.keyState("k1") == "completed"
	}, 30*time.Second, 10*time.Millisecond)
	got = h.charge("k2", c.body(t, provider, "order1", 1000))
	if got.status == http.StatusConflict {
		require.Equal(t, "order_paid", got.field(t, "code"))
	} else {
		require.Equal(t, http.StatusCreated, got.status, got.body)
	}
	require.Equal(t, 1, h.charges("order1"))
}

// leaveInDoubt has a charge's answer and the inquiry's answer lost.
func (c providerCase) leaveInDoubt(t *testing.T, h *harness, provider string) {
	t.Helper()
	h.armFor(provider, "charge", "drop_after")
	for range 3 {
		h.armFor(provider, "query", "drop_after")
	}
	got := h.charge("k1", c.body(t, provider, "order1", 1000))
	require.Equal(t, http.StatusGatewayTimeout, got.status, got.body)
}

// reconciled: nobody asks again but the reconciler; the client's retry then
// gets the end that it found.
func (c providerCase) reconciled(t *testing.T, provider string) {
	h := setup(t)
	c.leaveInDoubt(t, h, provider)
	require.Eventually(t, func() bool {
		h.reconcile()
		return h.keyState("k1") == "completed"
	}, 30*time.Second, 10*time.Millisecond)
	got := h.charge("k1", c.body(t, provider, "order1", 1000))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.True(t, got.replayed())
	require.Equal(t, 1, h.charges("order1"))
}

func (c providerCase) refundReconciled(t *testing.T, provider string) {
	h := setup(t)
	c.paid(t, h, provider, "order1", 1000)
	h.armFor(provider, "refund", "drop_after")
	for range 3 {
		h.armFor(provider, "query", "drop_after")
	}
	got := h.post("/v1/refunds", "rk1", refundBody("order1", "", 300))
	require.Contains(t, []int{http.StatusGatewayTimeout, http.StatusCreated}, got.status, got.body)
	require.Eventually(t, func() bool {
		h.reconcile()
		return h.keyState("rk1") == "completed" &&
			h.sum("SELECT count(*) FROM payments.refunds WHERE status = 'succeeded'") == 1
	}, 30*time.Second, 10*time.Millisecond)
	got = h.post("/v1/refunds", "rk1", refundBody("order1", "", 300))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	count, total := h.refunds("order1")
	require.Equal(t, 1, count)
	require.Equal(t, 300, total)
}

// late: a request to charge takes effect after its answer was given up, and after
// the provider said that it knows no such trade. Meanwhile nobody charges again,
// and a refusal of something else is no answer to it.
func (c providerCase) late(t *testing.T, provider string) {
	h := setup(t, withLimits(shortLease))
	h.armWith(map[string]any{"provider": provider, "op": "charge", "fault": "delay", "delay_ms": 1500})
	body := c.body(t, provider, "order1", 1000)
	got := h.charge("k1", body)
	require.GreaterOrEqual(t, got.status, http.StatusInternalServerError, got.body)
	require.Zero(t, h.charges("order1"), "not yet")
	h.armFor(provider, "charge", "decline")
	require.Eventually(t, func() bool {
		got = h.charge("k1", body)
		return got.status < http.StatusInternalServerError
	}, 30*time.Second, 50*time.Millisecond)
	if provider == "stripe" {
		// What was late made an intent, which the inquiry cancelled; the next one
		// was refused.
		require.Equal(t, http.StatusPaymentRequired, got.status, got.body)
		require.Zero(t, h.charges("order1"))
		return
	}
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, 1, h.charges("order1"))
}

// neverCame: the request was lost on its way. When it cannot come any more the
// client's retry charges, or the reconciler frees the key.
func (c providerCase) neverCame(t *testing.T, provider string) {
	h := setup(t, withLimits(shortLease))
	h.armWith(map[string]any{"provider": provider, "op": "charge", "fault": "delay", "delay_ms": 20_000})
	body := c.body(t, provider, "order1", 1000)
	require.GreaterOrEqual(t, h.charge("k1", body).status, http.StatusInternalServerError)
	if provider != "stripe" { // whose inquiry cancels what might come
		h.reconcile()
		require.Equal(t, "in_doubt", h.keyState("k1"))
		h.timePasses()
		h.reconcile()
	}
	require.Empty(t, h.keyState("k1"))
	got := h.charge("k1", body)
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, 1, h.charges("order1"))
}

// refundLate is late for refunds. A retry that comes when the provider may be
// believed has the same number: what is late after all is the same refund.
func (c providerCase) refundLate(t *testing.T, provider string) {
	h := setup(t, withLimits(shortLease))
	c.paid(t, h, provider, "order1", 1000)
	h.armWith(map[string]any{"provider": provider, "op": "refund", "fault": "delay", "delay_ms": 2000})
	sent, body := time.Now(), refundBody("order1", "", 300)
	got := h.post("/v1/refunds", "rk1", body)
	require.Equal(t, http.StatusGatewayTimeout, got.status, got.body)
	h.timePasses()
	h.reconcile()
	require.Empty(t, h.keyState("rk1"))
	require.Eventually(t, func() bool {
		return h.post("/v1/refunds", "rk1", body).status == http.StatusCreated
	}, 30*time.Second, 50*time.Millisecond)
	time.Sleep(time.Until(sent.Add(2500 * time.Millisecond))) // until the late one has come
	count, total := h.refunds("order1")
	require.Equal(t, 1, count)
	require.Equal(t, 300, total)
}

// refundLateRefused: what would be refused now may have been accepted before.
func (c providerCase) refundLateRefused(t *testing.T, provider string) {
	h := setup(t, withLimits(shortLease))
	c.paid(t, h, provider, "order1", 1000)
	h.armWith(map[string]any{"provider": provider, "op": "refund", "fault": "delay", "delay_ms": 1500})
	body := refundBody("order1", "", 300)
	require.Equal(t, http.StatusGatewayTimeout, h.post("/v1/refunds", "rk1", body).status)
	h.armFor(provider, "refund", "decline")
	require.Eventually(t, func() bool {
		return h.post("/v1/refunds", "rk1", body).status == http.StatusCreated
	}, 30*time.Second, 50*time.Millisecond)
	count, total := h.refunds("order1")
	require.Equal(t, 1, count)
	require.Equal(t, 300, total)
}

// anotherTab pays an order with a second key before anybody knows that it is
// paid. Where that is the same trade at the provider, both keys' charges
// succeed, and nobody is asked to give a second payment back.
func (c providerCase) anotherTab(t *testing.T, provider string) {
	h := setup(t)
	body := c.body(t, provider, "order1", 1000)
	require.Equal(t, http.StatusCreated, h.charge("k1", body).status)
	other := h.charge("k2", body)
	require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, other.status, other.body)
	c.notified(t, h, provider, "order1", "paid", 1, false)
	h.reconcile()
	require.Equal(t, "paid", h.orderStatus("order1"))
	require.Equal(t, 1, h.charges("order1"))
	require.Zero(t, h.sum("SELECT count(*) FROM payments.cases"))
	require.Zero(t, h.sum("SELECT count(*) FROM payments.charges WHERE status <> 'succeeded'"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox"))
}

// lostNotification: the buyer paid and the provider's notification never came.
func (c providerCase) lostNotification(t *testing.T, provider string) {
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("k1", c.body(t, provider, "order1", 1000)).status)
	h.reconcile()
	require.Equal(t, "paid", h.orderStatus("order1"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox WHERE kind = 'order_confirmation'"))
	require.Zero(t, h.sum("SELECT count(*) FROM payments.charges WHERE due_at IS NOT NULL"))
}

func (c providerCase) refunds(t *testing.T, provider string) {
	h := setup(t)
	c.paid(t, h, provider, "order1", 1000)
	for i, key := range []string{"rk1", "rk2", "rk2"} {
		got := h.post("/v1/refunds", key, refundBody("order1", "", 300))
		require.Equal(t, http.StatusCreated, got.status, got.body)
		require.Equal(t, i == 2, got.replayed())
	}
	got := h.post("/v1/refunds", "rk3", refundBody("order1", "", 401))
	require.Equal(t, "refund_exceeds_capture", got.field(t, "code"))
	count, total := h.refunds("order1")
	require.Equal(t, 2, count)
	require.Equal(t, 600, total)
	h.armFor(provider, "refund", "decline")
	got = h.post("/v1/refunds", "rk4", refundBody("order1", "", 100))
	require.Equal(t, http.StatusPaymentRequired, got.status, got.body)
}

// paid makes an order that is known to be paid, by its notification.
func (c providerCase) paid(t *testing.T, h *harness, provider, orderID string, amount int) {
	t.Helper()
	got := h.charge("pay-"+orderID, c.body(t, provider, orderID, amount))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	c.notified(t, h, provider, orderID, "paid", 1, false)
	require.Equal(t, "paid", h.orderStatus(orderID))
}

// notified sends a notification that has to be acknowledged as often.
func (c providerCase) notified(t *testing.T, h *harness, provider, orderID, event string, times int, parallel bool) {
	t.Helper()
	for _, told := range h.notifyFor(provider, orderID, event, times, parallel) {
		require.Equal(t, http.StatusOK, told.Status, "%s: %+v", event, told)
		if c.acknowledged.Status != 0 {
			require.Equal(t, c.acknowledged, told)
		}
	}
}

// notificationThatFails is not acknowledged, and leaves no trace: the
// redelivery does the work. The payment is one that nobody knows of yet.
func (c providerCase) notificationThatFails(t *testing.T, provider string) {
	h := setup(t)
	c.leaveInDoubt(t, h, provider)
	_, err := h.owner.Exec(t.Context(), "ALTER TABLE payments.outbox RENAME TO gone")
	require.NoError(t, err)
	told := h.notifyFor(provider, "order1", "paid", 1, false)[0]
	require.Equal(t, http.StatusServiceUnavailable, told.Status)
	require.Zero(t, h.sum("SELECT count(*) FROM guard.idempotency_keys WHERE scope = 'webhook'"))
	_, err = h.owner.Exec(t.Context(), "ALTER TABLE payments.gone RENAME TO outbox")
	require.NoError(t, err)
	c.notified(t, h, provider, "order1", "paid", 1, false)
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox"))
}

// story tells events after the payment. None moves the order backward, and
// each refund is one.
func (c providerCase) story(t *testing.T, provider, end string, events []string) {
	h := setup(t)
	c.paid(t, h, provider, "order1", 1000)
	for _, event := range events {
		c.notified(t, h, provider, "order1", event, 2, false)
	}
	require.Equal(t, end, h.orderStatus("order1"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.journal WHERE event = 'charge_succeeded'"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox WHERE kind = 'order_confirmation'"))
	refunded := map[string]int{"partially_refunded": 500, "refunded": 1000}[end]
	require.Equal(t, refunded, h.sum("SELECT coalesce(sum(amount), 0) FROM payments.refunds WHERE status = 'succeeded'"))
}

// forged notifications are refused and nothing is written.
func (c providerCase) forged(t *testing.T, provider string) {
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("k1", c.body(t, provider, "order1", 1000)).status)
	keys, effects := h.countKeys(), h.sum("SELECT count(*) FROM payments.outbox")
	for _, body := range []string{"", "%zz", "{}", "null", `{"out_trade_no":"order1"}`, "out_trade_no=order1&trade_status=TRADE_SUCCESS"} {
		got, err := h.send(t.Context(), http.MethodPost, "/webhooks/"+provider, body, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, got.status, body)
		require.Equal(t, "notification_invalid", got.field(t, "code"))
	}
	require.Equal(t, keys, h.countKeys())
	require.Equal(t, effects, h.sum("SELECT count(*) FROM payments.outbox"))
}

func (c providerCase) notifications(t *testing.T, provider string) {
	for _, parallel := range []bool{false, true} {
		h := setup(t)
		h.stock("tea", 10)
		body, err := json.Marshal(map[string]any{
			"order_id": "order1", "amount": 1000, "currency": c.currency, "items": []map[string]any{{"sku": "tea", "quantity": 1}},
		})
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, h.post("/v1/orders", "ok1", string(body)).status)
		require.Equal(t, http.StatusCreated, h.charge("k1", c.body(t, provider, "order1", 1000)).status)
		c.notified(t, h, provider, "order1", "paid", 25, parallel)
		require.Equal(t, "paid", h.orderStatus("order1"))
		require.Equal(t, 9, h.sum("SELECT on_hand FROM payments.inventory"))
		require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.journal WHERE event = 'charge_succeeded'"))
		require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox"))
	}
}

// wrongKeys lets the API speak to a simulator that has other keys: a clear
// error, and no money.
func (c providerCase) wrongKeys(t *testing.T, provider string) {
	h := setup(t, withSimulatorKeys(pspsim.NewKeys))
	got := h.charge("k1", c.body(t, provider, "order1", 1000))
	require.GreaterOrEqual(t, got.status, 500, got.body)
	require.Zero(t, h.charges("order1"))
}
