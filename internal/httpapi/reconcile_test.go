package httpapi_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/psp"
)

// heldQuery is a provider that waits inside Query.
type heldQuery struct {
	psp.Provider
	running, release chan struct{}
	once             sync.Once
	hold             atomic.Bool
	charges          atomic.Int32
	queries          atomic.Int32
}

func (h *heldQuery) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	h.charges.Add(1)
	return h.Provider.Charge(ctx, request)
}

func (h *heldQuery) Query(ctx context.Context, trade psp.Trade) psp.Result {
	h.queries.Add(1)
	if h.hold.Load() {
		h.once.Do(func() { close(h.running) })
		<-h.release
	}
	return h.Provider.Query(ctx, trade)
}

func TestFF08_ClientResendsWhileTheReconcilerAsks(t *testing.T) {
	t.Parallel()
	running, release, letGo := gate(t)
	provider := &heldQuery{running: running, release: release}
	h := setup(t, withProvider(only("alipay", func(p psp.Provider) psp.Provider {
		provider.Provider = p
		return provider
	})))
	leftInDoubt(t, h)
	provider.hold.Store(true)
	found := make(chan []payments.Inquiry, 1)
	go func() { found <- h.reconcile() }()
	<-running

	for _, key := range []string{"k1", "k2"} {
		got := h.charge(key, chargeBody("order-1", 1000))
		require.Equal(t, http.StatusConflict, got.status, got.body)
		require.NotEmpty(t, got.header.Get("Retry-After"))
	}
	letGo()
	require.Len(t, <-found, 1)
	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.True(t, got.replayed())
	require.EqualValues(t, 1, provider.charges.Load(), "no new charge at the provider")
	require.Equal(t, 1, h.charges("order-1"))
}

func TestFF09_SuccessAfterA504IsTold(t *testing.T) {
	t.Parallel()
	for name, resolve := range map[string]func(*harness){
		"by the notification": func(h *harness) { h.notifyOnce("order-1", "paid") },
		"by the reconciler":   func(h *harness) { h.reconcile() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := setup(t)
			chargeID := leftInDoubt(t, h)
			resolve(h)
			require.Equal(t, "succeeded", h.get("/v1/charges/"+chargeID).field(t, "status"))
			require.Equal(t, "paid", h.orderStatus("order-1"))
			got := h.charge("k1", chargeBody("order-1", 1000))
			require.Equal(t, http.StatusCreated, got.status, got.body)
			require.Equal(t, "succeeded", got.field(t, "status"))
			require.Equal(t, 1, h.charges("order-1"))
			require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.outbox WHERE kind = 'order_confirmation'"))
		})
	}
}

// A holder that died: before the provider was called, after it, and after a
// notification had decided. Its key never stays past its lease.
func TestFF04_ReconcilerEndsWhatADeadHolderBegan(t *testing.T) {
	t.Parallel()
	begin := func(h *harness) {
		h.exec(`SELECT payments.begin_charge('merchant', 'k1', 'POST /v1/charges', sha256($1), 'ch_1', 'order-1', 'alipay', '', 1000, 'CNY')`,
			[]byte(chargeBody("order-1", 1000)))
		h.holderDies()
	}
	t.Run("before the provider was called", func(t *testing.T) {
		t.Parallel()
		h := setup(t)
		begin(h)
		found := h.reconcile()
		require.Len(t, found, 1)
		require.Equal(t, payments.Released, found[0].Outcome)
		require.Empty(t, h.keyState("k1"), "free to run again")
		require.Equal(t, "failed", h.get("/v1/charges/ch_1").field(t, "status"))
		got := h.charge("k1", chargeBody("order-1", 1000))
		require.Equal(t, http.StatusCreated, got.status, got.body)
		require.Equal(t, 1, h.charges("order-1"))
	})
	t.Run("after it", func(t *testing.T) {
		t.Parallel()
		h := setup(t)
		leftInDoubt(t, h)
		h.exec("UPDATE payments.charges SET status = 'processing'")
		h.reconcile()
		require.Equal(t, "completed", h.keyState("k1"))
		require.Equal(t, 1, h.charges("order-1"))
		require.Equal(t, "paid", h.orderStatus("order-1"))
	})
	t.Run("after a notification decided", func(t *testing.T) {
		t.Parallel()
		h := setup(t)
		begin(h)
		h.exec("SELECT payments.apply_notification('alipay', 'e1', 'paid', 'order-1', 't1', 1000, 'CNY', NULL, NULL, NULL, NULL)")
		require.Equal(t, "in_doubt", h.keyState("k1"))
		h.reconcile()
		require.Equal(t, "completed", h.keyState("k1"))
		require.True(t, h.charge("k1", chargeBody("order-1", 1000)).replayed())
		require.Zero(t, h.sum("SELECT count(*) FROM payments.charges WHERE due_at IS NOT NULL"))
	})
	t.Run("and its key was purged", func(t *testing.T) {
		t.Parallel()
		h := setup(t)
		leftInDoubt(t, h)
		h.exec("DELETE FROM guard.idempotency_keys")
		found := h.reconcile()
		require.Len(t, found, 1)
		require.Empty(t, found[0].Outcome)
		require.Equal(t, "paid", h.orderStatus("order-1"))
	})
	t.Run("and its key serves other work", func(t *testing.T) {
		t.Parallel()
		h := setup(t)
		leftInDoubt(t, h)
		h.exec("UPDATE guard.idempotency_keys SET fence = fence + 1")
		h.reconcile()
		require.Equal(t, "paid", h.orderStatus("order-1"))
		require.Equal(t, "in_doubt", h.keyState("k1"), "not this charge's any more")
	})
	t.Run("not while it lives", func(t *testing.T) {
		t.Parallel()
		h := setup(t)
		begin(h)
		h.exec("UPDATE guard.idempotency_keys SET lease_until = clock_timestamp() + interval '1 hour'")
		require.Empty(t, h.reconcile())
		require.Equal(t, "held", h.keyState("k1"))
		require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.charges WHERE due_at > now() + interval '50 minutes'"))
	})
}

func TestReconcilerWaitsLongerEachTime(t *testing.T) {
	t.Parallel()
	h := setup(t)
	leftInDoubt(t, h)
	wait := func() int {
		return h.sum("SELECT round(extract(epoch FROM due_at - updated_at))::int FROM payments.charges")
	}
	for inquiry, want := range []int{2, 4, 8, 16} {
		require.Equal(t, want, wait())
		h.arm("query", "drop_after", 1)
		found := h.reconcile()
		require.Len(t, found, 1)
		require.Equal(t, payments.LeftInDoubt, found[0].Outcome)
		require.Equal(t, inquiry+1, h.sum("SELECT inquiries FROM payments.charges"))
		require.Equal(t, inquiry+2, h.sum("SELECT count(*) FROM payments.journal WHERE event = 'charge_in_doubt'"))
	}
	h.exec("UPDATE payments.charges SET inquiries = 1000")
	h.arm("query", "drop_after", 1)
	h.reconcile()
	require.Equal(t, 3600, wait())
	h.reconcile()
	require.Equal(t, "paid", h.orderStatus("order-1"))
}

// Several reconcilers share the work: each charge is asked about once.
func TestReconcilersAtOnce(t *testing.T) {
	t.Parallel()
	const open = 30
	counting := &heldQuery{}
	h := setup(t, withProvider(only("alipay", func(p psp.Provider) psp.Provider {
		counting.Provider = p
		return counting
	})))
	for i := range open {
		id := strconv.Itoa(i)
		h.exec(`SELECT payments.begin_charge('merchant', 'k' || $1, 'POST /v1/charges', sha256('x'), 'ch_' || $1, 'order-' || $1,
			'alipay', '', 1000, 'CNY')`, id)
	}
	h.holderDies()
	h.exec("UPDATE payments.charges SET due_at = now()")
	var running sync.WaitGroup
	var found atomic.Int32
	errs := make(chan error, 8)
	for range 8 {
		running.Go(func() {
			inquiries, err := h.reconciler.Once(context.WithoutCancel(t.Context()))
			found.Add(int32(len(inquiries)))
			errs <- err
		})
	}
	running.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.EqualValues(t, open, found.Load())
	require.EqualValues(t, open, counting.queries.Load())
	require.Zero(t, h.countKeys())
}

func TestReconcilerRunsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	h := setup(t)
	leftInDoubt(t, h)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		h.reconciler.Run(ctx)
		close(stopped)
	}()
	require.Eventually(t, func() bool { return h.keyState("k1") == "completed" }, 30*time.Second, 20*time.Millisecond)
	stop()
	<-stopped
}
