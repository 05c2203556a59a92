package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpapi"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/reconcile"
	"github.com/payonce/payonce/internal/tracing"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	apiKey      = "sk_test_merchant"
	otherAPIKey = "sk_test_other_merchant"
)

// simulatorKeys are made once: RSA keys take their time.
var simulatorKeys = sync.OnceValues(pspsim.NewKeys)

// harness is the API with its own database and simulator.
type harness struct {
	t     *testing.T
	api   *httptest.Server
	sim   *httptest.Server
	owner *pgxpool.Pool
	pool  *pgxpool.Pool // the API's

	handler    *httpapi.API
	service    *payments.Service
	reconciler *reconcile.Reconciler
}

// shortLease is the shortest that a service takes, for tests that wait for it.
var shortLease = payments.Limits{Lease: 11 * time.Second, TTL: time.Hour, EventTTL: time.Hour, Deadline: time.Second}

// option changes how the API is set up for one test.
type option func(*setupOptions)

type setupOptions struct {
	limits payments.Limits
	wrap   func(psp.Provider) psp.Provider
	sim    pspsim.Options

	simKeys func() (*pspsim.Keys, error)
	log     *slog.Logger
	tracing *tracing.Tracing
	// undescribed: requests carry what openapi.yaml does not have.
	undescribed bool
	// seen is told each request that reaches the simulator.
	seen func(*http.Request)
}

// withNotifications has the simulator send its notifications to the API by
// itself, as providers do.
func withNotifications() option {
	return func(o *setupOptions) { o.sim.Quiet = false }
}

// withSimulatorKeys gives the simulator other keys than the API has.
func withSimulatorKeys(keys func() (*pspsim.Keys, error)) option {
	return func(o *setupOptions) { o.simKeys = keys }
}

func withProvider(wrap func(psp.Provider) psp.Provider) option {
	return func(o *setupOptions) { o.wrap = wrap }
}

// only wraps one provider.
func only(name string, wrap func(psp.Provider) psp.Provider) func(psp.Provider) psp.Provider {
	return func(p psp.Provider) psp.Provider {
		if p.Name() != name {
			return p
		}
		return wrap(p)
	}
}

func withLimits(limits payments.Limits) option {
	return func(o *setupOptions) { o.limits = limits }
}

func setup(t *testing.T, options ...option) *harness {
	t.Helper()
	db := pgtest.New(t)
	return setupOn(t, db.URL, db.AppURL, options...)
}

// setupOn sets the API up on a migrated database: the API connects as a role
// that has no more than payonce_app.
func setupOn(t *testing.T, ownerURL, appURL string, options ...option) *harness {
	t.Helper()
	o := setupOptions{
		limits: payments.Limits{Lease: 30 * time.Second, TTL: time.Hour, EventTTL: 24 * time.Hour, Deadline: 15 * time.Second},
		wrap:   func(p psp.Provider) psp.Provider { return p },
		sim:    pspsim.Options{Quiet: true},
		log:    slog.New(slog.DiscardHandler),
		seen:   func(*http.Request) {},
	}
	for _, option := range options {
		option(&o)
	}
	ctx := t.Context()
	owner, err := pgxpool.New(ctx, ownerURL)
	require.NoError(t, err)
	t.Cleanup(owner.Close)
	require.NoError(t, payments.StoreAPIKey(ctx, owner, apiKey, "merchant", ""))
	require.NoError(t, payments.StoreAPIKey(ctx, owner, otherAPIKey, "other", ""))

	config, err := pgxpool.ParseConfig(appURL)
	require.NoError(t, err)
	o.tracing.Pool(config)
	pool, err := postgres.OpenConfig(ctx, config, append(guard.Statements(), payments.Statements()...)...)
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	keys, err := simulatorKeys()
	require.NoError(t, err)
	api := httptest.NewUnstartedServer(nil)
	address := "http://" + api.Listener.Addr().String()
	o.sim.Keys, o.sim.NotifyURL = keys, address
	if o.simKeys != nil {
		o.sim.Keys, err = o.simKeys()
		require.NoError(t, err)
	}
	simulator := pspsim.New(o.sim)
	simulated := simulator.Handler()
	sim := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.seen(r)
		simulated.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		simulator.Close()
		sim.Close()
	})
	all, err := providers.Simulated(keys, sim.URL, address, o.tracing.Client())
	require.NoError(t, err)
	for i := range all {
		all[i] = o.wrap(all[i])
	}

	h := &harness{t: t, api: api, sim: sim, owner: owner}
	service, err := payments.New(pool, all, o.limits, o.log)
	require.NoError(t, err)
	service.Trace(o.tracing.Tracer())
	h.service, h.pool = service, pool
	h.reconciler = reconcile.New(service, httpapi.StoredCharge, httpapi.StoredRefund, o.log)
	h.handler = httpapi.New(service, payments.NewAPIKeys(pool), o.log)
	api.Config.Handler = h.handler
	if !o.undescribed {
		api.Config.Handler = conforming(t, h.handler)
	}
	api.Config.Handler = o.tracing.Handler(api.Config.Handler, "/metrics")
	api.Start()
	t.Cleanup(api.Close)
	return h
}

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) replayed() bool { return a.header.Get("Idempotency-Replayed") == "true" }

func (a answer) field(t *testing.T, name string) any {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.body), &object), a.body)
	return object[name]
}

// send sends one request; header values replace the usual ones, an empty one
// removes it.
func (h *harness) send(ctx context.Context, method, path, body string, header http.Header) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, h.api.URL+path, bytes.NewBufferString(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+apiKey)
	request.Header.Set("Content-Type", "application/json")
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := h.api.Client().Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: string(read)}, err
}

func (h *harness) get(path string) answer {
	h.t.Helper()
	got, err := h.send(h.t.Context(), http.MethodGet, path, "", nil)
	require.NoError(h.t, err)
	return got
}

func chargeBody(orderID string, amount int) string {
	return fmt.Sprintf(`{"order_id":%q,"provider":"alipay","amount":%d,"currency":"CNY","subject":"Tea"}`, orderID, amount)
}

func key(value string) http.Header { return http.Header{"Idempotency-Key": {value}} }

func (h *harness) charge(idempotencyKey, body string) answer {
	h.t.Helper()
	return h.post("/v1/charges", idempotencyKey, body)
}

// arm makes the simulator's next calls of op fail.
func (h *harness) arm(op, fault string, times int) {
	h.t.Helper()
	h.armWith(map[string]any{"provider": "alipay", "op": op, "fault": fault, "times": times})
}

func (h *harness) armWith(fault map[string]any) {
	h.t.Helper()
	h.tellSim("/faults", fault, &struct{}{})
}

// acknowledgement is how the API answered a notification.
type acknowledgement struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Body        string `json:"body"`
	Error       string `json:"error"`
}

func (a acknowledgement) accepted() bool { return a.Status == http.StatusOK && a.Body == "success" }

// notify has the simulator send one notification a number of times.
func (h *harness) notify(orderID, event string, times int, parallel bool) []acknowledgement {
	h.t.Helper()
	return h.notifyFor("alipay", orderID, event, times, parallel)
}

// notifyFor is notify for any provider.
func (h *harness) notifyFor(provider, orderID, event string, times int, parallel bool) []acknowledgement {
	h.t.Helper()
	var told struct {
		Acknowledgements []acknowledgement `json:"acknowledgements"`
	}
	h.tellSim("/notify", map[string]any{
		"provider": provider, "out_trade_no": orderID, "event": event, "times": times, "parallel": parallel,
	}, &told)
	require.Len(h.t, told.Acknowledgements, times)
	return told.Acknowledgements
}

// notifyOnce sends one notification that has to be acknowledged.
func (h *harness) notifyOnce(orderID, event string) {
	h.t.Helper()
	told := h.notify(orderID, event, 1, false)
	require.True(h.t, told[0].accepted(), "%s: %+v", event, told[0])
}

func (h *harness) tellSim(path string, tell, into any) {
	h.t.Helper()
	body, err := json.Marshal(tell)
	require.NoError(h.t, err)
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.sim.URL+path, bytes.NewReader(body))
	require.NoError(h.t, err)
	response, err := h.sim.Client().Do(request)
	require.NoError(h.t, err)
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	require.NoError(h.t, err)
	require.Less(h.t, response.StatusCode, 300, string(read))
	require.NoError(h.t, json.Unmarshal(read, into))
}

// sum reads one number from the database.
func (h *harness) sum(sql string, args ...any) int {
	h.t.Helper()
	var n int
	require.NoError(h.t, h.owner.QueryRow(h.t.Context(), sql, args...).Scan(&n))
	return n
}

// orderStatus is the status of an order as its merchant sees it.
func (h *harness) orderStatus(orderID string) string {
	h.t.Helper()
	return h.get("/v1/orders/"+orderID).field(h.t, "status").(string)
}

// reconcile runs one reconciliation of all that is open, due or not.
func (h *harness) reconcile() []payments.Inquiry {
	h.t.Helper()
	h.exec("UPDATE payments.charges SET due_at = now() WHERE due_at IS NOT NULL")
	h.exec("UPDATE payments.refunds SET due_at = now() WHERE due_at IS NOT NULL")
	found, err := h.reconciler.Once(h.t.Context())
	require.NoError(h.t, err)
	return found
}

// holderDies ends all leases, as time does when their holders are gone, and
// nothing that they sent is on its way any more.
func (h *harness) holderDies() {
	h.t.Helper()
	h.exec("UPDATE guard.idempotency_keys SET lease_until = locked_at WHERE completed_at IS NULL")
	h.timePasses()
}

// timePasses makes every request to move money so old that it can have no effect.
func (h *harness) timePasses() {
	h.t.Helper()
	for _, table := range []string{"charges", "refunds"} {
		h.exec("UPDATE payments." + table + " SET unanswered_at = unanswered_at - interval '1 hour'")
	}
}

func (h *harness) exec(sql string, args ...any) {
	h.t.Helper()
	_, err := h.owner.Exec(h.t.Context(), sql, args...)
	require.NoError(h.t, err)
}

// stock sets the pieces of a sku.
func (h *harness) stock(sku string, onHand int) {
	h.t.Helper()
	_, err := h.owner.Exec(h.t.Context(), "SELECT payments.set_stock($1, $2)", sku, onHand)
	require.NoError(h.t, err)
}

func (h *harness) post(path, idempotencyKey, body string) answer {
	h.t.Helper()
	got, err := h.send(h.t.Context(), http.MethodPost, path, body, key(idempotencyKey))
	require.NoError(h.t, err)
	return got
}

// charges counts the movements of money of kind charge for an order.
func (h *harness) charges(orderID string) int {
	h.t.Helper()
	var ledger []struct {
		OutTradeNo string `json:"out_trade_no"`
		Kind       string `json:"kind"`
	}
	h.readSim("/ledger", &ledger)
	count := 0
	for _, entry := range ledger {
		if entry.OutTradeNo == orderID && entry.Kind == "charge" {
			count++
		}
	}
	return count
}

func (h *harness) readSim(path string, into any) {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.sim.URL+path, nil)
	require.NoError(h.t, err)
	response, err := h.sim.Client().Do(request)
	require.NoError(h.t, err)
	defer func() { _ = response.Body.Close() }()
	require.NoError(h.t, json.NewDecoder(response.Body).Decode(into))
}

// keyState is the state of an idempotency key, or empty when there is none.
func (h *harness) keyState(idempotencyKey string) string {
	h.t.Helper()
	var state string
	err := h.owner.QueryRow(h.t.Context(),
		"SELECT coalesce((SELECT state FROM guard.inspect('merchant', $1)), '')", idempotencyKey).Scan(&state)
	require.NoError(h.t, err)
	return state
}

func (h *harness) countKeys() int {
	h.t.Helper()
	return h.sum("SELECT count(*) FROM guard.idempotency_keys")
}

// gate is what a held provider waits at. It opens at the test's end at the
// latest, so that a failed test does not hang.
func gate(t *testing.T) (running, release chan struct{}, letGo func()) {
	t.Helper()
	running, release = make(chan struct{}), make(chan struct{})
	letGo = sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	return running, release, letGo
}

// reached waits until the provider is called, or fails with the answer that
// came instead.
func reached(t *testing.T, running <-chan struct{}, first <-chan answer) {
	t.Helper()
	select {
	case <-running:
	case got := <-first:
		t.Fatalf("the charge never reached the provider: %+v", got)
	}
}
