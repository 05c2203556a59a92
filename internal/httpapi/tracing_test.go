package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/tracing"
)

// observer is where logs, spans and the headers at the simulator end up.
type observer struct {
	t       *testing.T
	tracing *tracing.Tracing
	memory  *tracetest.InMemoryExporter

	mu  sync.Mutex
	log bytes.Buffer
	out []http.Header // to the simulator
}

func (o *observer) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.log.Write(line)
}

func observed(t *testing.T) (*observer, option) {
	t.Helper()
	o := &observer{t: t, memory: tracetest.NewInMemoryExporter()}
	var err error
	o.tracing, err = tracing.New(t.Context(), o.memory)
	require.NoError(t, err)
	return o, func(options *setupOptions) {
		options.tracing, options.undescribed = o.tracing, true
		options.log = slog.New(httpguard.LogHandler(slog.NewJSONHandler(o, &slog.HandlerOptions{Level: slog.LevelDebug})))
		options.seen = func(r *http.Request) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.out = append(o.out, r.Header.Clone())
		}
	}
}

func (o *observer) spans() tracetest.SpanStubs {
	o.t.Helper()
	require.NoError(o.t, o.tracing.Flush(o.t.Context()))
	return o.memory.GetSpans()
}

// one is the only span of this name.
func (o *observer) one(name string) tracetest.SpanStub {
	o.t.Helper()
	var found tracetest.SpanStubs
	var names []string
	for _, span := range o.spans() {
		names = append(names, span.Name)
		if span.Name == name {
			found = append(found, span)
		}
	}
	require.Len(o.t, found, 1, "%s among %q", name, names)
	return found[0]
}

func (o *observer) lines(message string) []map[string]any {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	var lines []map[string]any
	for scanner := bufio.NewScanner(bytes.NewReader(o.log.Bytes())); scanner.Scan(); {
		var line map[string]any
		require.NoError(o.t, json.Unmarshal(scanner.Bytes(), &line))
		if line["msg"] == message {
			lines = append(lines, line)
		}
	}
	return lines
}

func attribute(span tracetest.SpanStub, name string) string {
	for _, attr := range span.Attributes {
		if string(attr.Key) == name {
			return attr.Value.String()
		}
	}
	return ""
}

// One trace goes from the client's own span through the request, its SQL calls
// and its provider to the provider's side, and the log tells its id.
func TestOneTraceAcrossHTTPSQLAndProvider(t *testing.T) {
	t.Parallel()
	for name, c := range providerCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, traced := observed(t)
			h := setup(t, traced)
			const traceID, client = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
			headers := key("a-key-of-the-client")
			headers.Set("Traceparent", "00-"+traceID+"-"+client+"-01")
			headers.Set("Baggage", "secret=baggage")
			headers.Set("X-Request-Id", "request-1")
			got, err := h.send(t.Context(), http.MethodPost, "/v1/charges", c.body(t, name, "order1", 1000), headers)
			require.NoError(t, err)
			require.Equal(t, http.StatusCreated, got.status, got.body)

			request := o.one("POST /v1/charges")
			require.Equal(t, client, request.Parent.SpanID().String())
			require.True(t, request.Parent.IsRemote())
			require.Equal(t, trace.SpanKindServer, request.SpanKind)
			require.Equal(t, "201", attribute(request, "http.response.status_code"))
			require.Equal(t, "/v1/charges", attribute(request, "http.route"))
			require.Equal(t, "request-1", attribute(request, "payonce.request_id"))
			require.Equal(t, "order1", attribute(request, "payonce.order_id"))
			require.Equal(t, httpguard.ShortHash("a-key-of-the-client"), attribute(request, "payonce.key_hash"))
			require.Equal(t, "completed", attribute(request, "payonce.outcome"))
			provider := o.one(name + " charge")
			below := func(parent tracetest.SpanStub, span tracetest.SpanStub) {
				require.Equal(t, parent.SpanContext.SpanID(), span.Parent.SpanID(), span.Name)
			}
			for _, sql := range []string{"payments.begin_charge", "payments.finish_charge"} {
				call := o.one(sql)
				below(request, call)
				require.Equal(t, "postgresql", attribute(call, "db.system.name"))
			}
			below(request, provider)
			require.Equal(t, c.charged, attribute(provider, "payonce.verdict"))

			calls := map[string]bool{}
			for _, span := range o.spans() {
				require.Equal(t, traceID, span.SpanContext.TraceID().String(), span.Name)
				if span.SpanKind == trace.SpanKindClient && strings.Contains(span.InstrumentationScope.Name, "otelhttp") {
					below(provider, span)
					calls["00-"+traceID+"-"+span.SpanContext.SpanID().String()+"-01"] = true
				}
			}
			require.NotEmpty(t, o.out)
			require.Len(t, calls, len(o.out))
			for _, header := range o.out {
				require.True(t, calls[header.Get("Traceparent")], "%v", header)
				require.Empty(t, header.Get("Baggage"), "what a client says is none of a provider's business")
			}

			for _, message := range []string{"provider answered", "request"} {
				lines := o.lines(message)
				require.Len(t, lines, 1)
				require.Equal(t, traceID, lines[0]["trace_id"])
				require.Equal(t, "request-1", lines[0]["request_id"])
				require.Equal(t, "order1", lines[0]["order_id"])
				require.Equal(t, httpguard.ShortHash("a-key-of-the-client"), lines[0]["key_hash"])
			}
		})
	}
}

// Work that no request asked for begins a trace of its own; looking for it and
// finding nothing does not, nor do the probes and /metrics.
func TestTraceOfTheReconciler(t *testing.T) {
	t.Parallel()
	o, traced := observed(t)
	h := setup(t, traced)
	leftInDoubt(t, h)
	require.Len(t, o.lines("provider answered"), 2)
	o.spans()
	o.memory.Reset()
	require.Len(t, h.reconcile(), 1)
	h.scrape()
	root := o.one("reconcile charge")
	require.False(t, root.Parent.IsValid())
	require.Equal(t, "succeeded", attribute(root, "payonce.outcome"))
	require.Equal(t, root.SpanContext.SpanID(), o.one("alipay query").Parent.SpanID())
	require.Equal(t, root.SpanContext.SpanID(), o.one("payments.finish_charge").Parent.SpanID())
	for _, span := range o.spans() {
		require.Equal(t, root.SpanContext.TraceID(), span.SpanContext.TraceID(), span.Name)
	}
}

// What nobody may learn from a log or a trace: keys, credentials, bodies, what
// SQL is given. Each is put in, and none comes out, whether the request goes well
// or meets a fault, a refusal or a database that is away.
func TestNoSecretInLogsAndSpans(t *testing.T) {
	t.Parallel()
	o, traced := observed(t)
	server := pgtest.Server(t)
	db := server.New(t)
	h := setupOn(t, db.URL, db.AppURL, traced)
	keys, err := simulatorKeys()
	require.NoError(t, err)
	secrets := []string{
		apiKey, "Bearer", "idem-", "Very secret tea", "4111111111111111", "cvc-737", "87654321", "876543.21", "notified-",
		"query-secret", "cookie-secret", "baggage-secret",
		keys.StripeSecretKey, keys.StripeWebhookSecret, keys.WeChatAPIv3Key, keys.TwoCTwoPSecretKey,
		"PRIVATE KEY",
	}
	for _, pem := range []string{keys.AlipayMerchantPrivateKey, keys.WeChatMerchantPrivateKey, keys.TwoCTwoPMerchantPrivateKey} {
		secrets = append(secrets, strings.Split(pem, "\n")[1])
	}

	headers := func(idempotencyKey string) http.Header {
		header := key(idempotencyKey)
		header.Set("Cookie", "session=cookie-secret")
		header.Set("Baggage", "card=baggage-secret")
		header.Set("User-Agent", "card 4111111111111111")
		header.Set("X-Forwarded-For", "4111111111111111")
		return header
	}
	var statuses []int
	send := func(path, idempotencyKey, body string) answer {
		t.Helper()
		got, err := h.send(t.Context(), http.MethodPost, path+"?token=query-secret", body, headers(idempotencyKey))
		require.NoError(t, err)
		statuses = append(statuses, got.status)
		return got
	}
	for name, c := range providerCases {
		body := func(order string) string {
			text := c.body(t, name, name+order, 87654321)
			return strings.ReplaceAll(text, `"Tea"`, `"Very secret tea"`)
		}
		for _, fault := range []string{"", "decline", "error_before", "error_after", "drop_after", "delay"} {
			order := "order" + strings.ReplaceAll(fault, "_", "")
			if fault != "" {
				h.armFor(name, "charge", fault)
			}
			if fault == "drop_after" {
				h.armFor(name, "query", fault)
			}
			send("/v1/charges", "idem-"+name+fault, body(order))
			send("/v1/charges", "idem-"+name+fault, body(order))
		}
		send("/v1/charges", "idem-"+name, body("other"))
		send("/v1/charges", "idem-"+name+"card", strings.Replace(body("card"), "{", `{"card":"4111111111111111","cvc":"cvc-737",`, 1))
		send("/v1/charges", "idem-"+name+"broken", `{"subject":"Very secret tea", 4111111111111111`)
		send("/v1/charges", "idem-"+name+"nul", strings.Replace(body("nul"), "Very secret tea", `Very secret tea\u0000`, 1))
		told := h.notifyFor(name, name+"order", "paid", 2, false)
		require.Equal(t, http.StatusOK, told[0].Status)
		for _, fault := range []string{"", "error_before", "drop_after"} {
			if fault != "" {
				h.armFor(name, "refund", fault)
			}
			send("/v1/refunds", "idem-refund-"+name+fault,
				fmt.Sprintf(`{"order_id":%q,"refund_id":%q,"amount":87654,"reason":"Very secret tea"}`, name+"order", "rf"+fault[:min(4, len(fault))]))
		}
		send("/webhooks/"+name, "idem-webhook", `{"card":"4111111111111111","sign":"notified-1"}`)
	}
	h.reconcile()
	_, err = h.send(t.Context(), http.MethodGet, "/v1/charges/ch_1?token=query-secret", "", http.Header{"Authorization": {"Bearer sk_wrong"}})
	require.NoError(t, err)
	// Once more, with a provider and then with a database that is away.
	h.sim.Close()
	body := strings.ReplaceAll(chargeBody("away", 87654321), "Tea", "Very secret tea")
	send("/v1/charges", "idem-provider-away", body)
	server.Stop(t)
	send("/v1/charges", "idem-database-away", body)
	send("/webhooks/stripe", "idem-webhook", `{"card":"4111111111111111","sign":"notified-1"}`)
	for _, status := range []int{201, 400, 402, 422, 503, 504} {
		require.Contains(t, statuses, status)
	}

	spans := o.spans()
	require.Greater(t, len(spans), 200)
	out := spanText(spans)
	log := o.log.String()
	for _, message := range []string{"request", "provider answered", "notification refused", "database failed"} {
		require.NotEmpty(t, o.lines(message), message)
	}
	for _, secret := range secrets {
		require.NotContains(t, out, secret, "in a span")
		for _, line := range strings.Split(log, "\n") {
			require.NotContains(t, line, secret, "in the log")
		}
	}
}

// spanText is everything that leaves with spans.
func spanText(spans tracetest.SpanStubs) string {
	var text strings.Builder
	for _, span := range spans {
		fmt.Fprintf(&text, "%s %s %+v\n", span.Name, span.Status.Description, span.Resource.Attributes())
		for _, attr := range span.Attributes {
			fmt.Fprintf(&text, "  %s=%s\n", attr.Key, attr.Value.String())
		}
		for _, event := range span.Events {
			fmt.Fprintf(&text, "  event %s %+v\n", event.Name, event.Attributes)
		}
		for _, link := range span.Links {
			fmt.Fprintf(&text, "  link %+v\n", link.Attributes)
		}
	}
	return text.String()
}
