package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/psp"
)

func TestChargeThenReplay(t *testing.T) {
	t.Parallel()
	h := setup(t)
	first := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, first.status, first.body)
	require.False(t, first.replayed())
	require.Equal(t, "application/json", first.header.Get("Content-Type"))
	require.Equal(t, "/v1/charges/"+first.field(t, "charge_id").(string), first.header.Get("Location"))

	again := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, first.status, again.status)
	require.Equal(t, first.body, again.body)
	require.True(t, again.replayed())
	require.Equal(t, first.header.Get("Content-Type"), again.header.Get("Content-Type"))
	require.Equal(t, first.header.Get("Location"), again.header.Get("Location"))

	quoted := h.charge(`"k1"`, chargeBody("order-1", 1000))
	require.Equal(t, first.body, quoted.body)
	require.True(t, quoted.replayed())
	require.Equal(t, 1, h.charges("order-1"))

	shown := h.get(first.header.Get("Location"))
	require.Equal(t, http.StatusOK, shown.status)
	require.Equal(t, "order-1", shown.field(t, "order_id"))
	require.Equal(t, http.StatusOK, h.get("/v1/orders/order-1").status)
}

func TestFF01_ParallelRequestsWithOneKey(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.armWith(map[string]any{"provider": "alipay", "op": "charge", "fault": "delay", "times": 1, "delay_ms": 200})
	const clients = 50
	answers := make([]answer, clients)
	var wait sync.WaitGroup
	for i := range clients {
		wait.Go(func() {
			got, err := h.send(t.Context(), http.MethodPost, "/v1/charges", chargeBody("order-1", 1000), key("k1"))
			if err == nil {
				answers[i] = got
			}
		})
	}
	wait.Wait()
	created := 0
	for _, got := range answers {
		require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, got.status, got.body)
		if got.status == http.StatusConflict {
			require.Equal(t, "key_in_progress", got.field(t, "code"))
			require.Equal(t, "1", got.header.Get("Retry-After"))
			continue
		}
		created++
	}
	require.Positive(t, created)
	require.Equal(t, 1, h.charges("order-1"))
}

func TestFF02_OtherBodyWhileTheFirstIsRunning(t *testing.T) {
	t.Parallel()
	running, release, letGo := gate(t)
	h := setup(t, withProvider(func(p psp.Provider) psp.Provider {
		return &held{Provider: p, running: running, release: release}
	}))
	first := make(chan answer, 1)
	go func() {
		got, _ := h.send(t.Context(), http.MethodPost, "/v1/charges", chargeBody("order-1", 1000), key("k1"))
		first <- got
	}()
	reached(t, running, first)
	other := h.charge("k1", chargeBody("order-2", 1000))
	require.Equal(t, http.StatusUnprocessableEntity, other.status, other.body)
	require.Equal(t, "key_reused", other.field(t, "code"))
	same := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusConflict, same.status)
	letGo()
	require.Equal(t, http.StatusCreated, (<-first).status)

	late := h.charge("k1", chargeBody("order-1", 2000))
	require.Equal(t, http.StatusUnprocessableEntity, late.status)
	require.Equal(t, 1, h.charges("order-1"))
	require.Zero(t, h.charges("order-2"))
}

// held is a provider whose charge waits to be let go.
type held struct {
	psp.Provider
	running, release chan struct{}
	once             sync.Once
}

func (p *held) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	p.once.Do(func() { close(p.running) })
	<-p.release
	return p.Provider.Charge(ctx, request)
}

func TestRefusedBeforeTheClaim(t *testing.T) {
	t.Parallel()
	h := setup(t)
	good := chargeBody("order-1", 1000)
	tests := map[string]struct {
		header http.Header
		body   string
		status int
		code   string
		field  string
	}{
		"no key":                {body: good, status: 400, code: "idempotency_key_missing"},
		"two keys":              {header: http.Header{"Idempotency-Key": {"a", "b"}}, body: good, status: 400, code: "idempotency_key_repeated"},
		"empty key":             {header: key(""), body: good, status: 400, code: "idempotency_key_invalid"},
		"256 characters":        {header: key(strings.Repeat("k", 256)), body: good, status: 400, code: "idempotency_key_invalid"},
		"tab in the key":        {header: key("a\tb"), body: good, status: 400, code: "idempotency_key_invalid"},
		"not ASCII":             {header: key("ключ"), body: good, status: 400, code: "idempotency_key_invalid"},
		"no body":               {header: key("k"), body: "", status: 400, code: "body_malformed"},
		"not JSON":              {header: key("k"), body: "{", status: 400, code: "body_malformed"},
		"an array":              {header: key("k"), body: "[]", status: 400, code: "body_malformed"},
		"two objects":           {header: key("k"), body: good + good, status: 400, code: "body_malformed"},
		"a field twice":         {header: key("k"), body: `{"amount":1,"amount":2}`, status: 400, code: "body_malformed"},
		"huge":                  {header: key("k"), body: `{"subject":"` + strings.Repeat("x", 70_000) + `"}`, status: 413, code: "body_too_large"},
		"no order id":           {header: key("k"), body: `{"provider":"alipay","amount":1,"currency":"CNY"}`, status: 400, code: "field_invalid", field: "order_id"},
		"long order id":         {header: key("k"), body: chargeBody(strings.Repeat("o", 65), 1), status: 400, code: "field_invalid", field: "order_id"},
		"no amount":             {header: key("k"), body: `{"order_id":"order-1","provider":"alipay","currency":"CNY"}`, status: 400, code: "field_invalid", field: "amount"},
		"amount zero":           {header: key("k"), body: chargeBody("order-1", 0), status: 400, code: "field_invalid", field: "amount"},
		"amount below zero":     {header: key("k"), body: chargeBody("order-1", -1), status: 400, code: "field_invalid", field: "amount"},
		"amount with a point":   {header: key("k"), body: `{"order_id":"o","provider":"alipay","amount":1.5,"currency":"CNY"}`, status: 400, code: "field_invalid", field: "amount"},
		"amount as text":        {header: key("k"), body: `{"order_id":"o","provider":"alipay","amount":"1","currency":"CNY"}`, status: 400, code: "field_invalid", field: "amount"},
		"unknown currency":      {header: key("k"), body: `{"order_id":"o","provider":"alipay","amount":1,"currency":"ABC"}`, status: 400, code: "field_invalid", field: "currency"},
		"currency not Alipay's": {header: key("k"), body: `{"order_id":"o","provider":"alipay","amount":1,"currency":"JPY"}`, status: 400, code: "field_invalid", field: "currency"},
		"unknown provider":      {header: key("k"), body: `{"order_id":"o","provider":"cash","amount":1,"currency":"CNY"}`, status: 400, code: "field_invalid", field: "provider"},
		"unknown field":         {header: key("k"), body: `{"order_id":"o","provider":"alipay","amount":1,"currency":"CNY","colour":"red"}`, status: 400, code: "field_invalid", field: "colour"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := h.send(t.Context(), http.MethodPost, "/v1/charges", test.body, test.header)
			require.NoError(t, err)
			require.Equal(t, test.status, got.status, got.body)
			require.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
			require.Equal(t, test.code, got.field(t, "code"))
			if test.field != "" {
				require.Equal(t, test.field, got.field(t, "field"))
			}
		})
	}
	require.Zero(t, h.countKeys(), "no refused request used a key up")
	require.Zero(t, h.charges("order-1"))
}

// Go's client refuses to send a control character in a header; others do.
func TestControlCharacterInTheKey(t *testing.T) {
	t.Parallel()
	h := setup(t)
	body := chargeBody("order-1", 1000)
	for _, key := range []string{"a\x01b", "a\x00b", "a\x7fb"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.api.Listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST /v1/charges HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\n"+
			"Idempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", apiKey, key, len(body), body)
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.NoError(t, conn.Close())
		require.Equal(t, http.StatusBadRequest, response.StatusCode, "%q", key)
	}
	require.Zero(t, h.countKeys())
	require.Zero(t, h.charges("order-1"))
}

func TestWrongAPIKeyLeavesTheKeyUnused(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for _, authorization := range []string{"", "Bearer", "Bearer sk_wrong", "Basic " + apiKey} {
		header := key("k1")
		header.Set("Authorization", authorization)
		got, err := h.send(t.Context(), http.MethodPost, "/v1/charges", chargeBody("order-1", 1000), header)
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, got.status, authorization)
		require.NotEmpty(t, got.header.Get("WWW-Authenticate"))
	}
	require.Zero(t, h.countKeys())
	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, got.status)
	require.False(t, got.replayed())
}

func TestFF19_FailureBeforeTheMoneyMovedFreesTheKey(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.arm("charge", "error_before", 1)
	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
	require.Equal(t, "provider_unavailable", got.field(t, "code"))
	require.Equal(t, "same_key", got.field(t, "retry"))
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.Empty(t, h.keyState("k1"))
	require.Zero(t, h.charges("order-1"))

	got = h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, 1, h.charges("order-1"))
}

func TestFF19_FailureAfterTheMoneyMovedIsAskedAbout(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"error_after", "drop_after"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			h := setup(t)
			h.arm("charge", fault, 1)
			got := h.charge("k1", chargeBody("order-1", 1000))
			require.Equal(t, http.StatusCreated, got.status, got.body)
			require.Equal(t, "succeeded", got.field(t, "status"))
			require.Equal(t, 1, h.charges("order-1"))
			require.Contains(t, h.get("/v1/orders/order-1").body, `"status":"paid"`)
		})
	}
}

func TestFF05_InDoubtIsAskedByTheRetry(t *testing.T) {
	t.Parallel()
	h := setup(t)
	chargeID := leftInDoubt(t, h)
	charge := h.get("/v1/charges/" + chargeID)
	require.Equal(t, "in_doubt", charge.field(t, "status"))

	// Only the key that started the charge, or the reconciler, may end it.
	other := h.charge("k2", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusConflict, other.status, other.body)
	require.Equal(t, "charge_in_progress", other.field(t, "code"))

	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, "succeeded", got.field(t, "status"))
	require.Equal(t, 1, h.charges("order-1"))
	other = h.charge("k2", chargeBody("order-1", 1000))
	require.Equal(t, "order_paid", other.field(t, "code"))
	require.Equal(t, chargeID, other.field(t, "charge_id"))
}

// leftInDoubt charges order-1 with k1 and loses every answer of the provider.
func leftInDoubt(t *testing.T, h *harness) (chargeID string) {
	t.Helper()
	h.arm("charge", "drop_after", 1)
	h.arm("query", "drop_after", 1)
	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusGatewayTimeout, got.status, got.body)
	require.Equal(t, "outcome_unknown", got.field(t, "code"))
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.Equal(t, "in_doubt", h.keyState("k1"))
	return got.field(t, "charge_id").(string)
}

func TestDeclineIsStoredAndReplayed(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.arm("charge", "decline", 1)
	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusPaymentRequired, got.status, got.body)
	require.Equal(t, "charge_declined", got.field(t, "code"))
	require.NotEmpty(t, got.field(t, "provider_code"))
	again := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, got.body, again.body)
	require.Equal(t, got.status, again.status)
	require.True(t, again.replayed())
	require.Zero(t, h.charges("order-1"))

	// The buyer may try again, which is another payment attempt with its own key.
	other := h.charge("k2", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, other.status, other.body)
	require.Equal(t, 1, h.charges("order-1"))
}

func TestFF20_ClientHangsUpWhileTheProviderWorks(t *testing.T) {
	t.Parallel()
	running, release, letGo := gate(t)
	h := setup(t, withProvider(func(p psp.Provider) psp.Provider {
		return &held{Provider: p, running: running, release: release}
	}))
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := h.send(ctx, http.MethodPost, "/v1/charges", chargeBody("order-1", 1000), key("k1"))
		gone <- err
	}()
	select {
	case <-running:
	case err := <-gone:
		t.Fatalf("the charge never reached the provider: %v", err)
	}
	hangUp()
	require.ErrorIs(t, <-gone, context.Canceled)
	letGo()
	require.Eventually(t, func() bool { return h.keyState("k1") == "completed" }, 10*time.Second, 5*time.Millisecond)
	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, got.status)
	require.True(t, got.replayed())
	require.Equal(t, 1, h.charges("order-1"))
}

// panicking is a provider whose adapter breaks after the money has moved.
type panicking struct {
	psp.Provider
	once sync.Once
}

func (p *panicking) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	result := p.Provider.Charge(ctx, request)
	p.once.Do(func() { panic("broken after the charge") })
	return result
}

func TestFF06_PanicAfterTheChargeLeavesTheKeyInDoubt(t *testing.T) {
	t.Parallel()
	h := setup(t, withProvider(func(p psp.Provider) psp.Provider { return &panicking{Provider: p} }))
	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.Equal(t, "internal_error", got.field(t, "code"))
	require.Equal(t, "in_doubt", h.keyState("k1"))
	got = h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, 1, h.charges("order-1"))
}

func TestSlowProviderIsLeftInDoubt(t *testing.T) {
	t.Parallel()
	limits := payments.Limits{Lease: 20 * time.Second, TTL: time.Hour, EventTTL: time.Hour, Deadline: 300 * time.Millisecond}
	h := setup(t, withLimits(limits))
	h.armWith(map[string]any{"provider": "alipay", "op": "charge", "fault": "delay", "times": 1, "delay_ms": 60_000})
	h.armWith(map[string]any{"provider": "alipay", "op": "query", "fault": "delay", "times": 1, "delay_ms": 60_000})
	got := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusGatewayTimeout, got.status, got.body)
	require.Equal(t, "in_doubt", h.keyState("k1"))
}

func TestDatabaseStoppedFailsClosed(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	db := server.New(t)
	h := setupOn(t, db.URL, db.AppURL)
	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
	require.Equal(t, http.StatusOK, h.get("/readyz").status)
	server.Stop(t)

	got := h.charge("k2", chargeBody("order-2", 1000))
	require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
	require.Equal(t, "database_unavailable", got.field(t, "code"))
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.Zero(t, h.charges("order-2"))
	require.Equal(t, http.StatusServiceUnavailable, h.get("/readyz").status)
	require.Equal(t, http.StatusOK, h.get("/healthz").status)
}

func TestOrderDecidesWhatAnotherKeyMayDo(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.arm("charge", "drop_after", 1)
	paid := h.charge("k1", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusCreated, paid.status)
	tests := map[string]struct {
		header http.Header
		body   string
		code   string
	}{
		"paid already":        {key("k2"), chargeBody("order-1", 1000), "order_paid"},
		"another amount":      {key("k3"), chargeBody("order-1", 1001), "order_mismatch"},
		"another merchant's":  {http.Header{"Idempotency-Key": {"k4"}, "Authorization": {"Bearer " + otherAPIKey}}, chargeBody("order-1", 1000), "order_taken"},
		"the same key, their": {http.Header{"Idempotency-Key": {"k1"}, "Authorization": {"Bearer " + otherAPIKey}}, chargeBody("order-1", 1000), "order_taken"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := h.send(t.Context(), http.MethodPost, "/v1/charges", test.body, test.header)
			require.NoError(t, err)
			require.Equal(t, http.StatusConflict, got.status, got.body)
			require.Equal(t, test.code, got.field(t, "code"))
			if test.code == "order_paid" {
				require.Equal(t, paid.field(t, "charge_id"), got.field(t, "charge_id"))
			}
			if test.code == "order_taken" {
				require.NotContains(t, got.body, "ch_", "nothing of the other merchant's order is told")
			}
		})
	}
	require.Equal(t, 1, h.countKeys(), "a refusal by the order's state leaves the key unused")
	require.Equal(t, 1, h.charges("order-1"))

	foreign, err := h.send(t.Context(), http.MethodGet, "/v1/orders/order-1", "", http.Header{"Authorization": {"Bearer " + otherAPIKey}})
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, foreign.status)
}

func TestTwoKeysOneOrderAtOnce(t *testing.T) {
	t.Parallel()
	running, release, letGo := gate(t)
	h := setup(t, withProvider(func(p psp.Provider) psp.Provider {
		return &held{Provider: p, running: running, release: release}
	}))
	first := make(chan answer, 1)
	go func() {
		got, _ := h.send(t.Context(), http.MethodPost, "/v1/charges", chargeBody("order-1", 1000), key("k1"))
		first <- got
	}()
	reached(t, running, first)
	got := h.charge("k2", chargeBody("order-1", 1000))
	require.Equal(t, http.StatusConflict, got.status, got.body)
	require.Equal(t, "charge_in_progress", got.field(t, "code"))
	letGo()
	require.Equal(t, http.StatusCreated, (<-first).status)
	require.Equal(t, 1, h.charges("order-1"))
}

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	h := setup(t)
	tests := []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodGet, "/nowhere", 404, ""},
		{http.MethodGet, "/v1//charges/x", 404, ""},
		{http.MethodGet, "/v1/charges", 405, "POST"},
		{http.MethodPut, "/v1/charges", 405, "POST"},
		{http.MethodDelete, "/v1/orders/o", 405, "GET, HEAD"},
		{http.MethodGet, "/v1/charges/ch_unknown", 404, ""},
		{http.MethodGet, "/v1/orders/unknown", 404, ""},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s %s", test.method, test.path), func(t *testing.T) {
			got, err := h.send(t.Context(), test.method, test.path, "", nil)
			require.NoError(t, err)
			require.Equal(t, test.status, got.status)
			require.Equal(t, test.allow, got.header.Get("Allow"))
			require.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
			require.NotEmpty(t, got.header.Get("X-Request-Id"))
		})
	}
}
