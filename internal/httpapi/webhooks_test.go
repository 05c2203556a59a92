package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
)

func orderBody(orderID string, amount int, sku string, quantity int) string {
	return fmt.Sprintf(`{"order_id":%q,"amount":%d,"currency":"CNY","items":[{"sku":%q,"quantity":%d}]}`, orderID, amount, sku, quantity)
}

func TestCreateOrderThenReplay(t *testing.T) {
	t.Parallel()
	h := setup(t)
	first := h.post("/v1/orders", "ok1", orderBody("order-1", 1000, "tea", 2))
	require.Equal(t, http.StatusCreated, first.status, first.body)
	again := h.post("/v1/orders", "ok1", orderBody("order-1", 1000, "tea", 2))
	require.True(t, again.replayed())
	require.Equal(t, first.body, again.body)
	taken := h.post("/v1/orders", "ok2", orderBody("order-1", 1000, "tea", 2))
	require.Equal(t, "order_taken", taken.field(t, "code"))

	made := h.post("/v1/orders", "ok3", `{"amount":1000,"currency":"CNY"}`)
	require.Equal(t, http.StatusCreated, made.status, made.body)
	require.Regexp(t, `^[0-9A-Za-z]{6,32}$`, made.field(t, "order_id"))
	require.Equal(t, made.body, h.post("/v1/orders", "ok3", `{"amount":1000,"currency":"CNY"}`).body)
	require.Equal(t, "pending", h.orderStatus(made.field(t, "order_id").(string)))
	require.Equal(t, 2, h.sum("SELECT count(*) FROM payments.orders"))
	for _, items := range []string{`5`, `[{"sku":"","quantity":1}]`, `[{"sku":"a","quantity":0}]`, `[{"sku":"a","quantity":1,"x":1}]`} {
		got := h.post("/v1/orders", "ok4", `{"amount":1,"currency":"CNY","items":`+items+`}`)
		require.Equal(t, http.StatusBadRequest, got.status, items)
		require.Equal(t, "items", got.field(t, "field"), items)
	}
}

func TestPaidNotificationMovesEverythingOnce(t *testing.T) {
	t.Parallel()
	for _, parallel := range []bool{false, true} {
		t.Run(fmt.Sprintf("parallel %v", parallel), func(t *testing.T) {
			t.Parallel()
			h := setup(t)
			h.stock("tea", 10)
			require.Equal(t, http.StatusCreated, h.post("/v1/orders", "ok1", orderBody("order-1", 1000, "tea", 3)).status)
			require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
			require.Equal(t, 3, h.sum("SELECT reserved FROM payments.inventory"))
			for _, told := range h.notify("order-1", "paid", 25, parallel) {
				require.True(t, told.accepted(), "%+v", told)
				require.Equal(t, "text/plain", told.ContentType)
			}
			require.Equal(t, "paid", h.orderStatus("order-1"))
			require.Equal(t, 7, h.sum("SELECT on_hand FROM payments.inventory"))
			require.Equal(t, 0, h.sum("SELECT reserved FROM payments.inventory"))
			require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.journal WHERE event = 'charge_succeeded'"))
			require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox"))
			require.Equal(t, 1, h.sum("SELECT count(*) FROM guard.idempotency_keys WHERE scope = 'webhook'"))
		})
	}
}

func TestFF25_SameNotificationTwiceAtOnce(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
	for _, told := range h.notify("order-1", "paid", 2, true) {
		require.True(t, told.accepted())
	}
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox"))
}

func TestFF10_NotificationBeforeOurOwnEnd(t *testing.T) {
	t.Parallel()
	running, release, letGo := gate(t)
	h := setup(t, withProvider(func(p psp.Provider) psp.Provider { return &heldAfter{Provider: p, done: running, release: release} }))
	first := make(chan answer, 1)
	go func() {
		got, _ := h.send(t.Context(), http.MethodPost, "/v1/charges", chargeBody("order-1", 1000), key("k1"))
		first <- got
	}()
	reached(t, running, first)
	h.notifyOnce("order-1", "paid")
	require.Equal(t, "paid", h.orderStatus("order-1"))
	letGo()
	got := <-first
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, "succeeded", got.field(t, "status"), "the notification knew better than the create call")
	require.Equal(t, "paid", h.orderStatus("order-1"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox"))
	require.Equal(t, got.body, h.charge("k1", chargeBody("order-1", 1000)).body)
}

// heldAfter is a provider whose answer is held back after the money moved.
type heldAfter struct {
	psp.Provider
	done, release chan struct{}
	once          sync.Once
}

func (p *heldAfter) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	result := p.Provider.Charge(ctx, request)
	p.once.Do(func() { close(p.done) })
	<-p.release
	return result
}

func TestFF10_NotificationWithoutOurOwnEnd(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.arm("charge", "drop_after", 1)
	h.arm("query", "drop_after", 1)
	require.Equal(t, http.StatusGatewayTimeout, h.charge("k1", chargeBody("order-1", 1000)).status)
	h.notifyOnce("order-1", "paid")
	require.Equal(t, "paid", h.orderStatus("order-1"))
	var before, after map[string]int
	h.readSim("/requests", &before)
	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, "succeeded", got.field(t, "status"))
	h.readSim("/requests", &after)
	require.Equal(t, before, after, "what the notification told need not be asked again")
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox"))
}

func TestFF21_NotificationThatFailsIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
	// The effect breaks once, for a reason of the database's own.
	_, err := h.owner.Exec(t.Context(), "ALTER TABLE payments.outbox RENAME TO gone")
	require.NoError(t, err)
	told := h.notify("order-1", "paid", 1, false)[0]
	require.Equal(t, http.StatusServiceUnavailable, told.Status)
	require.NotContains(t, told.Body, "success")
	require.Equal(t, 0, h.sum("SELECT count(*) FROM guard.idempotency_keys WHERE scope = 'webhook'"), "the failure left no trace")
	require.Equal(t, "processing", h.orderStatus("order-1"))
	_, err = h.owner.Exec(t.Context(), "ALTER TABLE payments.gone RENAME TO outbox")
	require.NoError(t, err)
	h.notifyOnce("order-1", "paid")
	require.Equal(t, "paid", h.orderStatus("order-1"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox"))
}

func TestFF23_LaterEventsMoveNothingBackward(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
	h.notifyOnce("order-1", "paid")
	for _, event := range []string{"waiting", "closed", "paid"} {
		h.notifyOnce("order-1", event)
		require.Equal(t, "paid", h.orderStatus("order-1"), event)
	}
	// Even when the key is long forgotten.
	_, err := h.owner.Exec(t.Context(), "DELETE FROM guard.idempotency_keys WHERE scope = 'webhook'")
	require.NoError(t, err)
	h.notifyOnce("order-1", "paid")
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.journal WHERE event = 'charge_succeeded'"))
}

func TestFF24_PartialRefundThenFinished(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
	for _, event := range []string{"paid", "refund_partial", "finished", "refund_partial"} {
		h.notifyOnce("order-1", event)
	}
	require.Equal(t, "partially_refunded", h.orderStatus("order-1"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.refunds"))
	require.Equal(t, 500, h.sum("SELECT amount FROM payments.refunds"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.journal WHERE event = 'charge_succeeded'"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox WHERE kind = 'order_confirmation'"))
}

// FF-27 over the providers' own protocols: the buyer pays in Alipay and in
// WeChat Pay. The second payment is acknowledged, kept, and put before a person.
func TestFF27_AlipayAndWeChatBothPay(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for _, name := range []string{"alipay", "wechat"} {
		got := h.charge("k-"+name, providerCases[name].body(t, name, "order-1", 1000))
		require.Equal(t, http.StatusCreated, got.status, got.body)
	}
	require.Equal(t, 2, h.charges("order-1"))
	for range 2 {
		for _, name := range []string{"alipay", "wechat"} {
			providerCases[name].notified(t, h, name, "order-1", "paid", 2, true)
		}
	}
	require.Equal(t, "paid", h.orderStatus("order-1"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox"))
	require.Equal(t, 2, h.sum("SELECT count(*) FROM payments.charges WHERE status = 'succeeded'"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.cases WHERE kind = 'second_payment' AND resolved_at IS NULL"))
}

func TestFF26_AcknowledgementBytes(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
	told := h.notify("order-1", "paid", 1, false)[0]
	require.Equal(t, acknowledgement{Status: 200, ContentType: "text/plain", Body: "success"}, told)
}

func TestForgedAndForeignNotifications(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
	keys := h.countKeys()
	for name, body := range map[string]string{
		"empty": "", "no form": "%zz", "no signature": "out_trade_no=order-1&trade_status=TRADE_SUCCESS&total_amount=10.00",
	} {
		got, err := h.send(t.Context(), http.MethodPost, "/webhooks/alipay", body, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, got.status, name)
		require.Equal(t, "notification_invalid", got.field(t, "code"))
	}
	got, err := h.send(t.Context(), http.MethodPost, "/webhooks/alipay", strings.Repeat("x", 300<<10), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status)
	got, err = h.send(t.Context(), http.MethodPost, "/webhooks/cash", "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, got.status)
	require.Equal(t, keys, h.countKeys(), "nothing was written")
	require.Equal(t, "processing", h.orderStatus("order-1"))
}

func TestNotificationOverAnotherAmountIsPutBeforeAPerson(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
	_, err := h.owner.Exec(t.Context(), "UPDATE payments.orders SET amount = 999")
	require.NoError(t, err)
	h.notifyOnce("order-1", "paid")
	require.Equal(t, "processing", h.orderStatus("order-1"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.cases WHERE kind = 'amount_mismatch'"))
	require.Equal(t, 0, h.sum("SELECT count(*) FROM payments.outbox"))
}

func TestStockIsSoldExactlyOnce(t *testing.T) {
	t.Parallel()
	h := setup(t, withNotifications())
	const pieces = 5
	h.stock("tea", pieces)
	var wait sync.WaitGroup
	var mu sync.Mutex
	told := map[string]int{}
	for i := range 10 * pieces {
		wait.Go(func() {
			orderID := fmt.Sprintf("order-%d", i)
			// Without its order a charge has no goods; a busy server asks for another try.
			for {
				got, err := h.send(t.Context(), http.MethodPost, "/v1/orders", orderBody(orderID, 1000, "tea", 1), key("ok-"+orderID))
				if err != nil || got.status == http.StatusCreated {
					break
				}
			}
			for range 3 { // impatient buyers
				got, err := h.send(t.Context(), http.MethodPost, "/v1/charges", chargeBody(orderID, 1000), key("k-"+orderID))
				mu.Lock()
				switch {
				case err != nil:
					told["error"]++
				case got.replayed():
				case got.status == http.StatusCreated:
					told["sold"]++
				default:
					told[strings.SplitN(strings.SplitN(got.body, `"code":"`, 2)[1], `"`, 2)[0]]++
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	require.Equal(t, pieces, told["sold"], "%v", told)
	require.Equal(t, 3*9*pieces, told["out_of_stock"], "the rest is told clearly: %v", told)
	require.Eventually(t, func() bool {
		return h.sum("SELECT count(*) FROM payments.orders WHERE status = 'paid'") == pieces
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, 0, h.sum("SELECT on_hand FROM payments.inventory"))
	require.Equal(t, 0, h.sum("SELECT reserved FROM payments.inventory"))
	require.Equal(t, pieces, h.sum("SELECT count(*) FROM payments.outbox WHERE kind = 'order_confirmation'"))
}

func TestStockIsGivenBack(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.stock("tea", 1)
	require.Equal(t, http.StatusCreated, h.post("/v1/orders", "ok1", orderBody("order-1", 1000, "tea", 1)).status)
	for i, fault := range []string{"decline", "error_before"} {
		h.arm("charge", fault, 1)
		got := h.charge(fmt.Sprintf("k%d", i), chargeBody("order-1", 1000))
		require.GreaterOrEqual(t, got.status, 400)
		require.Equal(t, 0, h.sum("SELECT reserved FROM payments.inventory"), fault)
	}
	require.Equal(t, http.StatusCreated, h.charge("k9", chargeBody("order-1", 1000)).status)
	require.Equal(t, 1, h.sum("SELECT reserved FROM payments.inventory"))
}
