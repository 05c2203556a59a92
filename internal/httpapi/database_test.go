package httpapi_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/psp"
)

// wire stands between the API and its database and loses answers.
type wire struct {
	to string
	// lose is how many of the next answers are lost: the database does what it
	// was asked, and the connection is cut instead of its answer.
	lose atomic.Int32
	// silent: the answer is lost and the connection stays open.
	silent atomic.Bool
}

// wired returns the URL of a database through a wire.
func wired(t *testing.T, databaseURL string) (*wire, string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{to: u.Host}
	u.Host = listener.Addr().String()
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go w.join(client)
		}
	}()
	return w, u.String()
}

func (w *wire) join(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", w.to) //nolint:noctx // ends with the connection
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		if w.lose.Load() > 0 && w.lose.Add(-1) >= 0 {
			if !w.silent.Load() {
				return
			}
			_, _ = io.Copy(io.Discard, server)
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// after is a provider that does something between its answer and ours.
type after struct {
	psp.Provider
	once sync.Once
	do   func()
}

func (a *after) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	result := a.Provider.Charge(ctx, request)
	a.once.Do(a.do)
	return result
}

func (a *after) Refund(ctx context.Context, request psp.RefundRequest) psp.Result {
	result := a.Provider.Refund(ctx, request)
	a.once.Do(a.do)
	return result
}

func afterwards(do func()) option {
	return withProvider(only("alipay", func(p psp.Provider) psp.Provider { return &after{Provider: p, do: do} }))
}

// An answer of the database that is lost counts as unknown, and is asked for
// again with the same number or fence.
func TestLostAnswersOfTheDatabase(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		name := map[bool]string{false: "connection cut", true: "connection silent"}[silent]
		t.Run("to begin_charge, "+name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			wire, appURL := wired(t, db.AppURL)
			h := setupOn(t, db.URL, appURL)
			require.Equal(t, http.StatusNotFound, h.get("/v1/orders/none").status, "the api key is known now")
			wire.silent.Store(silent)
			wire.lose.Store(1)
			got := h.charge("k1", chargeBody("order-1", 1000))
			require.Equal(t, http.StatusCreated, got.status, got.body)
			require.Equal(t, 1, h.charges("order-1"))
			require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.charges"))
			require.True(t, h.charge("k1", chargeBody("order-1", 1000)).replayed())
		})
		t.Run("to finish_charge, "+name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			wire, appURL := wired(t, db.AppURL)
			h := setupOn(t, db.URL, appURL, afterwards(func() { wire.lose.Store(1) }))
			wire.silent.Store(silent)
			got := h.charge("k1", chargeBody("order-1", 1000))
			require.Equal(t, http.StatusCreated, got.status, got.body)
			require.Equal(t, 1, h.charges("order-1"))
			again := h.charge("k1", chargeBody("order-1", 1000))
			require.True(t, again.replayed())
			require.Equal(t, got.body, again.body)
		})
	}
	t.Run("to begin_refund and finish_refund", func(t *testing.T) {
		t.Parallel()
		db := pgtest.New(t)
		wire, appURL := wired(t, db.AppURL)
		h := setupOn(t, db.URL, appURL)
		require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
		h.notifyOnce("order-1", "paid")
		wire.lose.Store(1)
		got := h.post("/v1/refunds", "rk1", refundBody("order-1", "", 300))
		require.Equal(t, http.StatusCreated, got.status, got.body)
		count, total := h.refunds("order-1")
		require.Equal(t, 1, count)
		require.Equal(t, 300, total)
	})
	t.Run("to abandon_charge", func(t *testing.T) {
		t.Parallel()
		db := pgtest.New(t)
		wire, appURL := wired(t, db.AppURL)
		h := setupOn(t, db.URL, appURL, afterwards(func() { wire.lose.Store(1) }))
		leftInDoubt(t, h)
	})
	t.Run("to release_charge", func(t *testing.T) {
		t.Parallel()
		db := pgtest.New(t)
		wire, appURL := wired(t, db.AppURL)
		h := setupOn(t, db.URL, appURL, afterwards(func() { wire.lose.Store(1) }))
		h.arm("charge", "error_before", 1)
		// Whether it was released or taken over is not known: the retry tells.
		require.GreaterOrEqual(t, h.charge("k1", chargeBody("order-1", 1000)).status, 400)
		require.Empty(t, h.keyState("k1"))
		require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
		require.Equal(t, 1, h.charges("order-1"))
	})
}

func TestDatabaseRestartIsRiddenOut(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	db := server.New(t)
	var restarting sync.WaitGroup
	h := setupOn(t, db.URL, db.AppURL, afterwards(func() {
		server.Stop(t)
		restarting.Go(func() { server.Restart(t) })
	}))
	defer restarting.Wait()
	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, 1, h.charges("order-1"))
}

// The database stays away after the money moved: the client is never told that
// nothing was charged, and the end is found when it is back.
func TestFF05_DatabaseStaysAwayAfterTheCharge(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgtest.Durable())
	db := server.New(t)
	h := setupOn(t, db.URL, db.AppURL, afterwards(func() {
		server.Kill()
		time.Sleep(300 * time.Millisecond) // backends notice a moment later that their postmaster is gone
	}))
	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusGatewayTimeout, got.status, got.body)
	require.Equal(t, "outcome_unknown", got.field(t, "code"))
	require.NotEmpty(t, got.header.Get("Retry-After"))

	server.Restart(t)
	require.Eventually(t, func() bool { return h.owner.Ping(t.Context()) == nil }, 10*time.Second, 20*time.Millisecond)
	h.holderDies()
	h.reconcile()
	got = h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.True(t, got.replayed())
	require.Equal(t, 1, h.charges("order-1"))
}

// A client that hangs up while its charge begins leaves no key that nobody
// works on.
func TestFF20_ClientHangsUpWhileTheChargeBegins(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusNotFound, h.get("/v1/orders/none").status, "the api key is known now")
	// The order is locked, so that begin_charge waits.
	h.exec("SELECT payments.create_order('merchant', 'o', 'POST /v1/orders', sha256('o'), 'order-1', 1000, 'CNY', NULL, 201, NULL, NULL)")
	tx, err := h.owner.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM payments.orders FOR UPDATE")
	require.NoError(t, err)
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := h.send(ctx, http.MethodPost, "/v1/charges", chargeBody("order-1", 1000), key("k1"))
		gone <- err
	}()
	require.Eventually(t, func() bool {
		return h.sum("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") > 0
	}, 10*time.Second, 5*time.Millisecond)
	hangUp()
	require.ErrorIs(t, <-gone, context.Canceled)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Eventually(t, func() bool { return h.keyState("k1") == "completed" }, 10*time.Second, 5*time.Millisecond)
	require.True(t, h.charge("k1", chargeBody("order-1", 1000)).replayed())
	require.Equal(t, 1, h.charges("order-1"))
}

// With every connection in use a request is turned away at once.
func TestBusyPoolTurnsRequestsAway(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := setupOn(t, db.URL, db.AppURL+"&pool_max_conns=1")
	require.Equal(t, http.StatusNotFound, h.get("/v1/orders/none").status, "the api key is known now")
	taken, err := h.pool.Acquire(t.Context())
	require.NoError(t, err)
	letGo := sync.OnceFunc(taken.Release)
	defer letGo()

	got := h.charge("k2", chargeBody("order-2", 1000))
	require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
	require.Equal(t, "server_busy", got.field(t, "code"))
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.Zero(t, h.charges("order-2"))
	require.Equal(t, http.StatusServiceUnavailable, h.get("/readyz").status)

	letGo()
	require.Equal(t, http.StatusCreated, h.charge("k2", chargeBody("order-2", 1000)).status)
}

// Work that outlasts its lease keeps it.
func TestFF07_LongWorkKeepsItsLease(t *testing.T) {
	t.Parallel()
	running, release, letGo := gate(t)
	h := setup(t, withLimits(shortLease), withProvider(func(p psp.Provider) psp.Provider {
		return &held{Provider: p, running: running, release: release}
	}))
	first := make(chan answer, 1)
	go func() {
		got, _ := h.send(context.WithoutCancel(t.Context()), http.MethodPost, "/v1/charges", chargeBody("order-1", 1000), key("k1"))
		first <- got
	}()
	reached(t, running, first)
	h.exec("UPDATE guard.idempotency_keys SET lease_until = clock_timestamp()")
	require.Eventually(t, func() bool { return h.keyState("k1") == "held" }, shortLease.Lease, 20*time.Millisecond)
	require.Empty(t, h.reconcile(), "nobody takes it over")
	letGo()
	// By now the provider's deadline is over, which is not the lease.
	require.Equal(t, http.StatusGatewayTimeout, (<-first).status)
	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
	require.Equal(t, 1, h.charges("order-1"))
}

// A stale holder: its lease ran out, the retry asked the provider and ended
// the charge; what the first one then says is not stored over that.
func TestFF07_StaleHolderGetsTheWinnersAnswer(t *testing.T) {
	t.Parallel()
	running, release, letGo := gate(t)
	h := setup(t, withProvider(only("alipay", func(p psp.Provider) psp.Provider {
		return &late{Provider: p, running: running, release: release}
	})))
	first := make(chan answer, 1)
	go func() {
		got, _ := h.send(context.WithoutCancel(t.Context()), http.MethodPost, "/v1/charges", chargeBody("order-1", 1000), key("k1"))
		first <- got
	}()
	reached(t, running, first)
	h.holderDies()
	winner := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, winner.status, winner.body)
	letGo()
	stale := <-first
	require.Equal(t, http.StatusCreated, stale.status, stale.body)
	require.Equal(t, winner.body, stale.body)
	require.True(t, stale.replayed())
	require.Equal(t, 1, h.charges("order-1"))
	require.True(t, h.charge("k1", chargeBody("order-1", 1000)).replayed())
}

// late is a provider whose answer to the first charge comes late.
type late struct {
	psp.Provider
	running, release chan struct{}
	once             sync.Once
}

func (l *late) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	result := l.Provider.Charge(ctx, request)
	l.once.Do(func() {
		close(l.running)
		<-l.release
	})
	return result
}

// Halting leaves what is still asked of a provider in doubt, at once.
func TestHaltLeavesRunningWorkInDoubt(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.armWith(map[string]any{"provider": "alipay", "op": "charge", "fault": "delay", "times": 1, "delay_ms": 60_000})
	first := make(chan answer, 1)
	go func() {
		got, _ := h.send(context.WithoutCancel(t.Context()), http.MethodPost, "/v1/charges", chargeBody("order-1", 1000), key("k1"))
		first <- got
	}()
	require.Eventually(t, func() bool { return h.keyState("k1") == "held" }, 10*time.Second, 5*time.Millisecond)
	h.service.Halt()
	require.Equal(t, http.StatusGatewayTimeout, (<-first).status)
	require.Equal(t, "in_doubt", h.keyState("k1"))
}

func TestUnreadyWhileDraining(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusOK, h.get("/readyz").status)
	h.handler.Drain()
	got := h.get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "stopping", got.field(t, "code"))
	require.Equal(t, http.StatusOK, h.get("/healthz").status)
	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status, "still served")
}
