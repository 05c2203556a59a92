package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/metrics/metricstest"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/version"
)

func (h *harness) scrape() metricstest.Scraped {
	h.t.Helper()
	got := h.get("/metrics")
	require.Equal(h.t, http.StatusOK, got.status, got.body)
	return metricstest.Parse(h.t, got.body)
}

func TestMetricsOfCharges(t *testing.T) {
	t.Parallel()
	h := setup(t)
	body := chargeBody("order-1", 1000)
	require.Equal(t, http.StatusCreated, h.charge("k1", body).status)
	require.Equal(t, http.StatusCreated, h.charge("k1", body).status)
	require.Equal(t, http.StatusCreated, h.charge("k1", body).status)
	require.Equal(t, http.StatusUnprocessableEntity, h.charge("k1", chargeBody("order-1", 1)).status)
	require.Equal(t, http.StatusConflict, h.charge("k2", chargeBody("order-1", 1)).status)
	h.arm("charge", "decline", 1)
	require.Equal(t, http.StatusPaymentRequired, h.charge("k3", chargeBody("order-3", 1000)).status)
	h.arm("charge", "error_before", 1)
	require.Equal(t, http.StatusServiceUnavailable, h.charge("k4", chargeBody("order-4", 1000)).status)

	got := h.scrape()
	require.EqualValues(t, 3, got.Value("claims_total", "work", "charge", "outcome", "claimed"))
	require.EqualValues(t, 2, got.Value("claims_total", "work", "charge", "outcome", "replay"))
	require.EqualValues(t, 1, got.Value("claims_total", "work", "charge", "outcome", "mismatch"))
	require.EqualValues(t, 1, got.Value("claims_total", "work", "charge", "outcome", "order_mismatch"))
	require.EqualValues(t, 7, got.Value("claims_total"))
	require.EqualValues(t, 1, got.Value("attempts_total", "work", "charge", "end", "pending"))
	require.EqualValues(t, 1, got.Value("attempts_total", "work", "charge", "end", "failed"))
	require.EqualValues(t, 1, got.Value("attempts_total", "work", "charge", "end", "released"))
	require.EqualValues(t, 3, got.Value("attempts_total"))
	require.EqualValues(t, 1, got.Value("provider_calls_total", "provider", "alipay", "operation", "charge", "class", "pending"))
	require.EqualValues(t, 1, got.Value("provider_calls_total", "provider", "alipay", "operation", "charge", "class", "terminal"))
	require.EqualValues(t, 3, got.Value("provider_call_duration_seconds", "provider", "alipay", "operation", "charge"))
	require.EqualValues(t, 3, got.Value("http_requests_total", "route", "/v1/charges", "method", "POST", "status", "201"))
	require.EqualValues(t, 1, got.Value("http_requests_total", "route", "/v1/charges", "method", "POST", "status", "402"))
	require.EqualValues(t, 7, got.Value("http_request_duration_seconds", "route", "/v1/charges"))
	// Which state they are in changes while a scrape reads from the database.
	require.Positive(t, got.Value("db_pool_connections"))
	require.Positive(t, got.Value("db_pool_max_connections"))
	require.Positive(t, got.Value("db_pool_acquires_total"))
}

// What a client makes up becomes no label.
func TestMetricsHaveBoundedLabels(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for _, path := range []string{"/made-up-1", "/v1/orders/made-up-2", "/v1/charges/made-up-3", "/webhooks/made-up-4"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, "MADEUP"} {
			_, err := h.send(t.Context(), method, path, "{}", key("made-up-5"))
			require.NoError(t, err)
		}
	}
	require.Equal(t, http.StatusBadRequest, h.charge("made-up-6", chargeBody("made-up-7", -1)).status)
	body := h.get("/metrics").body
	require.NotContains(t, strings.ToLower(body), "made-up")
	require.NotContains(t, body, "MADEUP")
	got := h.scrape()
	require.EqualValues(t, 4, got.Value("http_requests_total", "method", "other"))
	require.EqualValues(t, 1, got.Value("http_requests_total", "route", "/v1/orders/{id}", "status", "404"))
	require.EqualValues(t, 0, got.Value("webhooks_total"), "no provider of ours")
}

func TestMetricsOfWorkInDoubt(t *testing.T) {
	t.Parallel()
	h := setup(t)
	leftInDoubt(t, h)
	h.exec("UPDATE guard.idempotency_keys SET locked_at = now() - interval '11 minutes', lease_until = now() - interval '10 minutes'")
	h.exec("UPDATE payments.charges SET due_at = now() - interval '5 minutes'")
	got := h.scrape()
	require.EqualValues(t, 1, got.Value("attempts_total", "work", "charge", "end", "left_in_doubt"))
	require.EqualValues(t, 1, got.Value("provider_calls_total", "operation", "charge", "class", "in_doubt"))
	require.EqualValues(t, 1, got.Value("provider_calls_total", "operation", "query", "class", "in_doubt"))
	require.EqualValues(t, 1, got.Value("keys", "state", "in_doubt"))
	require.InDelta(t, 600, got.Value("keys_in_doubt_oldest_age_seconds"), 60)
	require.EqualValues(t, 1, got.Value("reconciler_due", "work", "charge"))
	require.EqualValues(t, 0, got.Value("reconciler_due", "work", "refund"))
	require.InDelta(t, 300, got.Value("reconciler_lag_seconds", "work", "charge"), 60)
	require.EqualValues(t, 0, got.Value("lease_takeovers_total"))

	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
	got = h.scrape()
	require.EqualValues(t, 1, got.Value("lease_takeovers_total", "work", "charge", "by", "request"))
	require.EqualValues(t, 1, got.Value("attempts_total", "work", "charge", "end", "succeeded"))
	require.EqualValues(t, 1, got.Value("keys", "state", "in_doubt"), "what was just read counts for a while")
}

func TestMetricsOfTheReconciler(t *testing.T) {
	t.Parallel()
	h := setup(t)
	leftInDoubt(t, h)
	require.Equal(t, http.StatusCreated, h.charge("k2", chargeBody("order-2", 1000)).status)
	require.Len(t, h.reconcile(), 2)
	got := h.scrape()
	require.EqualValues(t, 1, got.Value("lease_takeovers_total", "work", "charge", "by", "reconciler"))
	require.EqualValues(t, 2, got.Value("reconciler_findings_total", "work", "charge", "finding", "succeeded"))
	require.EqualValues(t, 2, got.Value("reconciler_findings_total"))
	require.EqualValues(t, 2, got.Value("outbox_undelivered"))
}

func TestMetricsOfOrdersRefundsAndNotifications(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.post("/v1/orders", "ok1", `{"order_id":"order-1","amount":1000,"currency":"CNY"}`).status)
	require.Equal(t, http.StatusConflict, h.post("/v1/orders", "ok2", `{"order_id":"order-1","amount":1000,"currency":"CNY"}`).status)
	require.Equal(t, http.StatusCreated, h.charge("k1", chargeBody("order-1", 1000)).status)
	h.notifyOnce("order-1", "paid")
	h.notifyOnce("order-1", "paid")
	forged, err := h.send(t.Context(), http.MethodPost, "/webhooks/alipay", "forged=1", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, forged.status)
	require.Equal(t, http.StatusCreated, h.post("/v1/refunds", "rk1", refundBody("order-1", "", 300)).status)
	h.exec("UPDATE payments.orders SET amount = 999")
	h.notifyOnce("order-1", "finished")
	h.exec("UPDATE payments.outbox SET created_at = now() - interval '1 hour'")
	h.exec("UPDATE payments.cases SET opened_at = now() - interval '2 hours'")
	h.exec("UPDATE guard.idempotency_keys SET created_at = now() - interval '2 days', expires_at = now() - interval '1 day' WHERE key = 'ok1'")

	got := h.scrape()
	require.EqualValues(t, 1, got.Value("claims_total", "work", "order", "outcome", "claimed"))
	require.EqualValues(t, 1, got.Value("claims_total", "work", "order", "outcome", "order_taken"))
	require.EqualValues(t, 1, got.Value("claims_total", "work", "refund", "outcome", "claimed"))
	require.EqualValues(t, 1, got.Value("attempts_total", "work", "refund", "end", "succeeded"))
	require.EqualValues(t, 1, got.Value("provider_calls_total", "operation", "refund", "class", "succeeded"))
	require.EqualValues(t, 1, got.Value("webhooks_total", "provider", "alipay", "result", "applied"))
	require.EqualValues(t, 1, got.Value("webhooks_total", "provider", "alipay", "result", "duplicate"))
	require.EqualValues(t, 1, got.Value("webhooks_total", "provider", "alipay", "result", "recorded"))
	require.EqualValues(t, 1, got.Value("webhooks_total", "provider", "alipay", "result", "notification_invalid"))
	require.EqualValues(t, 2, got.Value("outbox_undelivered"))
	require.InDelta(t, 3600, got.Value("outbox_oldest_age_seconds"), 60)
	require.EqualValues(t, 1, got.Value("cases_open"))
	require.InDelta(t, 7200, got.Value("cases_oldest_age_seconds"), 60)
	require.EqualValues(t, 1, got.Value("keys", "state", "expired"))
	require.InDelta(t, (24 * time.Hour).Seconds(), got.Value("purge_lag_seconds"), 60)
	require.EqualValues(t, 1, got.Value("db_reading_success", "reading", "keys"))
	require.EqualValues(t, 1, got.Value("db_reading_success", "reading", "backlog"))
}

// Without the database the metrics of the process are still told, and that the
// others are missing.
func TestMetricsWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	db := server.New(t)
	h := setupOn(t, db.URL, db.AppURL)
	server.Stop(t)
	require.Equal(t, http.StatusServiceUnavailable, h.charge("k1", chargeBody("order-1", 1000)).status)
	got := h.scrape()
	require.EqualValues(t, 1, got.Value("http_requests_total", "route", "/v1/charges", "status", "503"))
	require.EqualValues(t, 0, got.Value("db_reading_success", "reading", "keys"))
	require.True(t, got.Has("db_reading_success"))
	require.False(t, got.Has("keys"), "a number that nobody read must not look like one")
}

func TestMetricsTellTheVersion(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 1, setup(t).scrape().Value("build_info", "version", version.Get().Version))
}
