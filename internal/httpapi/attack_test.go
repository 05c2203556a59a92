package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostile are texts that would mean something else to SQL, to JSON's readers,
// to a log or to a terminal, were they not treated as data.
var hostile = []string{
	`'; DROP TABLE payments.orders; --`, `' OR '1'='1`, `$1`, `%s%n`, `\'; SELECT pg_sleep(10); --`, `${jndi:ldap://x}`,
	`../../../etc/passwd`, `<script>alert(1)</script>`, "a\u0000b", "\x1b[31mred", "line\nbreak", "\u202eright to left",
	`{"order_id":"x"}`, strings.Repeat("a", 1024), strings.Repeat("€", 1025), "\ufeffbom", `\u0000`,
}

// Whatever stands in a field is stored as it is or refused; it is never an
// error of ours, and never a statement.
func TestHostileValuesAreData(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.paidOrder("paid-1", 1000)
	quote := func(text string) string {
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		return string(quoted)
	}
	n := 0
	send := func(path, idempotencyKey, body string) {
		t.Helper()
		got, err := h.send(t.Context(), http.MethodPost, path, body, key(idempotencyKey))
		if err != nil {
			require.ErrorContains(t, err, "invalid header field value", "refused by the client already")
			return
		}
		require.Less(t, got.status, 500, "%s %s: %s", path, body, got.body)
	}
	for _, text := range hostile {
		n++
		fresh := func() string { n++; return fmt.Sprint("hostile-", n) }
		send("/v1/orders", fresh(), `{"order_id":`+quote(text)+`,"amount":1000,"currency":"CNY"}`)
		send("/v1/orders", fresh(), `{"amount":1000,"currency":`+quote(text)+`}`)
		send("/v1/orders", fresh(), `{"amount":1000,"currency":"CNY","items":[{"sku":`+quote(text)+`,"quantity":1}]}`)
		send("/v1/orders", fresh(), `{"amount":1000,"currency":"CNY",`+quote(text)+`:"x"}`)
		send("/v1/charges", fresh(), `{"order_id":`+quote(text)+`,"provider":"alipay","amount":1000,"currency":"CNY"}`)
		for _, field := range []string{"subject", "method", "buyer_id", "auth_code"} {
			send("/v1/charges", fresh(), fmt.Sprintf(`{"order_id":"o%d","provider":"alipay","amount":1000,"currency":"CNY",%q:%s}`,
				n, field, quote(text)))
		}
		send("/v1/charges", fresh(), fmt.Sprintf(`{"order_id":"o%d","provider":%s,"amount":1000,"currency":"CNY"}`, n, quote(text)))
		send("/v1/refunds", fresh(), `{"order_id":"paid-1","refund_id":`+quote(text)+`,"amount":1}`)
		send("/v1/refunds", fresh(), `{"order_id":"paid-1","amount":1,"reason":`+quote(text)+`}`)
		send("/v1/refunds", fresh(), `{"order_id":`+quote(text)+`,"amount":1}`)
		send("/v1/charges", text, chargeBody(fmt.Sprint("k", n), 1000))
	}
	for _, amount := range []string{"9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e3", "1e400", "0.5", "null", `"1"`, "[1]", "{}"} {
		n++
		send("/v1/orders", fmt.Sprint("amount-o", n), `{"amount":`+amount+`,"currency":"CNY"}`)
		send("/v1/charges", fmt.Sprint("amount-c", n), fmt.Sprintf(`{"order_id":"a%d","provider":"stripe","amount":%s,"currency":"USD","payment_method":"pm_card_visa"}`, n, amount))
		send("/v1/refunds", fmt.Sprint("amount-r", n), `{"order_id":"paid-1","amount":`+amount+`}`)
		send("/v1/orders", fmt.Sprint("amount-q", n), `{"amount":1,"currency":"CNY","items":[{"sku":"a","quantity":`+amount+`}]}`)
	}
	for _, body := range []string{
		strings.Repeat("[", 30_000), `{"a":` + strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 10_000), "{" + strings.Repeat(`"a":1,`, 9_000) + `"b":1}`,
		"\xff\xfe", `{"amount":1,"AMOUNT":2,"currency":"CNY"}`, "null", `"x"`,
	} {
		n++
		send("/v1/orders", fmt.Sprint("shape-", n), body)
	}
	for _, path := range []string{"/v1/orders/", "/v1/charges/"} {
		for _, text := range append(hostile, "%00", "..%2f..%2fhealthz", "%2e%2e", "a%zz", "%ff%fe", "%EF%BB%BF") {
			id := text
			if !strings.HasPrefix(text, "%") && !strings.Contains(text, "%2f") && !strings.Contains(text, "%z") {
				id = url.PathEscape(text)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.api.URL+path, nil)
			require.NoError(t, err)
			request.URL.Opaque = path + id
			request.Header.Set("Authorization", "Bearer "+otherAPIKey) // who has none of them
			response, err := h.api.Client().Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Contains(t, []int{http.StatusNotFound, http.StatusBadRequest}, response.StatusCode, "%s%s", path, id)
		}
	}
	send("/v1/orders", "twice", `{"amount":1,"currency":"CNY","items":[{"sku":"a","quantity":1},{"sku":"a","quantity":1}]}`)
	send("/v1/orders", "many", `{"amount":1,"currency":"CNY","items":[`+strings.Repeat(`{"sku":"a","quantity":1},`, 100)+`{"sku":"b","quantity":1}]}`)

	// Nothing became a statement: all is there, and each text is where it was put.
	require.Equal(t, "partially_refunded", h.orderStatus("paid-1"))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.order_items WHERE sku = $1", hostile[0]))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM guard.idempotency_keys WHERE scope = 'merchant' AND key = $1", hostile[1]))
	require.Equal(t, 1, h.sum("SELECT count(*) FROM payments.orders WHERE order_id = $1 AND merchant = 'merchant'", hostile[0]))
}

// One merchant gets nothing of another's: no replay of its responses, no word of
// its orders, no money of its charges. What tells keys apart is the api key.
func TestMerchantsCannotReachEachOther(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.paidOrder("order-1", 1000)
	mine := h.charge("shared-key", chargeBody("order-2", 2000))
	require.Equal(t, http.StatusCreated, mine.status, mine.body)
	chargeID := mine.field(t, "charge_id").(string)

	other := func(method, path, body, idempotencyKey string) answer {
		t.Helper()
		header := http.Header{"Authorization": {"Bearer " + otherAPIKey}}
		if idempotencyKey != "" {
			header["Idempotency-Key"] = []string{idempotencyKey}
		}
		got, err := h.send(t.Context(), method, path, body, header)
		require.NoError(t, err)
		require.False(t, got.replayed(), "%s %s", method, path)
		require.NotContains(t, got.body, chargeID)
		return got
	}
	// The same key and the same bytes: not the first caller's response.
	got := other(http.MethodPost, "/v1/charges", chargeBody("order-2", 2000), "shared-key")
	require.Equal(t, "order_taken", got.field(t, "code"))
	require.Equal(t, "order_taken", other(http.MethodPost, "/v1/charges", chargeBody("order-1", 1000), "pay-order-1").field(t, "code"))
	require.Equal(t, "order_taken", other(http.MethodPost, "/v1/orders", `{"order_id":"order-1","amount":1000,"currency":"CNY"}`, "o").field(t, "code"))
	require.Equal(t, http.StatusNotFound, other(http.MethodGet, "/v1/orders/order-1", "", "").status)
	require.Equal(t, http.StatusNotFound, other(http.MethodGet, "/v1/charges/"+chargeID, "", "").status)
	require.Equal(t, "order_unknown", other(http.MethodPost, "/v1/refunds", refundBody("order-1", "", 1000), "r").field(t, "code"))
	count, _ := h.refunds("order-1")
	require.Zero(t, count)
	require.Equal(t, "paid", h.orderStatus("order-1"))
	require.Equal(t, mine.body, h.charge("shared-key", chargeBody("order-2", 2000)).body, "its owner still gets it")

	// Headers of a proxy in front decide nothing: not who calls, nor where from.
	spoofed := http.Header{
		"Authorization": {"Bearer " + otherAPIKey}, "X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-User": {"merchant"},
		"Forwarded": {"for=127.0.0.1;host=merchant"}, "X-Merchant": {"merchant"}, "X-Original-Url": {"/v1/orders/order-1"},
		"X-Http-Method-Override": {"GET"},
	}
	got, err := h.send(t.Context(), http.MethodGet, "/v1/orders/order-1", "", spoofed)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, got.status)
	spoofed.Del("Authorization")
	spoofed["Authorization"] = nil
	got, err = h.send(t.Context(), http.MethodGet, "/v1/orders/order-1", "", spoofed)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, got.status)
}

// state is what an order came to: everything but the journal, which tells that
// notifications came, and the times.
func (h *harness) state() string {
	h.t.Helper()
	var text string
	require.NoError(h.t, h.owner.QueryRow(h.t.Context(), `
		SELECT concat_ws(E'\n',
		       (SELECT string_agg((to_jsonb(o) - 'updated_at')::text, E'\n' ORDER BY o.order_id) FROM payments.orders AS o),
		       (SELECT string_agg((to_jsonb(c) - 'updated_at')::text, E'\n' ORDER BY c.charge_id) FROM payments.charges AS c),
		       (SELECT string_agg((to_jsonb(r) - 'updated_at')::text, E'\n' ORDER BY r.refund_id) FROM payments.refunds AS r),
		       (SELECT string_agg((to_jsonb(i) - 'updated_at')::text, E'\n' ORDER BY i.sku) FROM payments.inventory AS i),
		       (SELECT string_agg(to_jsonb(x)::text, E'\n' ORDER BY x.entry_id) FROM payments.outbox AS x),
		       (SELECT string_agg(to_jsonb(s)::text, E'\n' ORDER BY s.case_id) FROM payments.cases AS s))`).Scan(&text))
	return text
}

// A notification that was recorded, and is played again when its event is no
// longer known, moves nothing: orders go forward only, and money is counted by
// refund, not by notification.
func TestOldNotificationsMoveNothing(t *testing.T) {
	t.Parallel()
	for provider, c := range providerCases {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := setup(t)
			h.stock("tea", 10)
			order := strings.ReplaceAll(orderBody("order1", 1000, "tea", 3), "CNY", c.currency)
			require.Equal(t, http.StatusCreated, h.post("/v1/orders", "o", order).status)
			got := h.charge("k1", c.body(t, provider, "order1", 1000))
			require.Equal(t, http.StatusCreated, got.status, got.body)
			tell := func(event string) {
				told := h.notifyFor(provider, "order1", event, 1, false)[0]
				require.Equal(t, http.StatusOK, told.Status, "%s: %+v", event, told)
			}
			var recorded []string
			for _, events := range c.stories {
				recorded = append(recorded, events...)
			}
			tell("paid")
			require.Equal(t, "paid", h.orderStatus("order1"))
			if provider != "2c2p" { // tells of no refunds
				refund := h.post("/v1/refunds", "r1", refundBody("order1", "refund1", 300))
				require.Equal(t, http.StatusCreated, refund.status, refund.body)
				tell("refund_partial")
				require.Equal(t, "partially_refunded", h.orderStatus("order1"))
				recorded = []string{"paid", "refund_partial", "paid", "refund_partial", "refund_partial"}
			} else {
				recorded = append(recorded, "paid")
			}
			before := h.state()
			for _, event := range recorded {
				// Purged, as after 30 days.
				h.exec("DELETE FROM guard.idempotency_keys WHERE scope = 'webhook'")
				tell(event)
				require.Equal(t, before, h.state(), event)
			}
		})
	}
}

// What a stranger sends fills the log no faster than it costs him to send.
func TestStrangersCannotFillTheLog(t *testing.T) {
	t.Parallel()
	o, logged := observed(t)
	h := setup(t, logged)
	long := strings.Repeat("a", 150_000)
	for _, c := range []struct{ path, body string }{
		{"/webhooks/alipay", long + "=1&" + long[:50_000] + "=2&" + long[:50_000] + "=3"},
		{"/webhooks/alipay", long + "=%26"},
		{"/webhooks/2c2p", `{"payload":"` + base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"`+long[:100_000]+`"}`)) + `.e30.x"}`},
		{"/webhooks/stripe", long}, {"/webhooks/wechat", long}, {"/" + long[:20_000], ""},
	} {
		header := http.Header{
			"Stripe-Signature": {"t=1,v1=" + long[:8000]}, "Wechatpay-Serial": {long[:4000]}, "Wechatpay-Timestamp": {"1" + long[:4000]},
			"Wechatpay-Nonce": {long[:2000]}, "Wechatpay-Signature": {long[:2000]}, "X-Request-Id": {long[:8000]},
		}
		got, err := h.send(t.Context(), http.MethodPost, c.path, c.body, header)
		require.NoError(t, err)
		require.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound}, got.status, c.path[:10])
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	require.GreaterOrEqual(t, strings.Count(o.log.String(), "notification refused"), 5)
	for line := range strings.Lines(o.log.String()) {
		require.Less(t, len(line), 2000, line[:min(len(line), 300)])
	}
}
