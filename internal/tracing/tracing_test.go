package tracing_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/payonce/payonce/internal/tracing"
)

// variables are all that FromEnvironment looks at.
var variables = []string{
	"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL",
	"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
}

func environment(t *testing.T, set map[string]string) {
	t.Helper()
	for _, name := range variables {
		t.Setenv(name, set[name])
	}
}

var silent = slog.New(slog.DiscardHandler)

func TestOffUnlessAnEndpointIsSet(t *testing.T) {
	for _, set := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_SERVICE_NAME": "shop"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"},
	} {
		environment(t, set)
		off, err := tracing.FromEnvironment(t.Context(), silent)
		require.NoError(t, err)
		require.Nil(t, off, "%v", set)
	}
}

type key struct{}

// Off costs nothing: no handler, transport or tracer is put in between.
func TestOffIsFree(t *testing.T) {
	var off *tracing.Tracing
	handler, transport := http.NewServeMux(), &http.Transport{}
	require.Same(t, handler, off.Handler(handler, "/healthz"))
	require.Same(t, transport, off.Transport(transport))
	require.Same(t, http.DefaultTransport, off.Transport(nil))
	require.Nil(t, off.Client())
	config, err := pgxpool.ParseConfig("postgres://127.0.0.1/none")
	require.NoError(t, err)
	off.Pool(config)
	require.Nil(t, config.ConnConfig.Tracer)
	off.Stop(t.Context(), silent)
	ctx := context.WithValue(t.Context(), key{}, 1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, span := tracing.Start(ctx, "alipay", "charge")
		span.End()
	}))
}

func TestWrongEnvironment(t *testing.T) {
	const good = "http://127.0.0.1:4318"
	for says, set := range map[string]map[string]string{
		"must be the URL of an OTLP collector": {"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4318"},
		"set http/protobuf":                    {"OTEL_EXPORTER_OTLP_ENDPOINT": good, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL":   {"OTEL_EXPORTER_OTLP_ENDPOINT": good, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"},
		"OTEL_RESOURCE_ATTRIBUTES":             {"OTEL_EXPORTER_OTLP_ENDPOINT": good, "OTEL_RESOURCE_ATTRIBUTES": "team"},
	} {
		environment(t, set)
		_, err := tracing.FromEnvironment(t.Context(), silent)
		require.ErrorContains(t, err, says)
	}
}

// inbox takes spans as a collector does (opentelemetry.io/docs/specs/otlp).
type inbox struct {
	mu    sync.Mutex
	names map[string]string // span names by service
	fails bool
}

func (i *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fails {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	read, err := io.ReadAll(body)
	var request collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(read, &request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, resource := range request.GetResourceSpans() {
		service := ""
		for _, attr := range resource.GetResource().GetAttributes() {
			if attr.GetKey() == "service.name" {
				service = attr.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				i.names[span.GetName()] = service
			}
		}
	}
}

func TestSendsToTheCollector(t *testing.T) {
	received := &inbox{names: map[string]string{}}
	server := httptest.NewServer(received)
	t.Cleanup(server.Close)
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL})
	on, err := tracing.FromEnvironment(t.Context(), silent)
	require.NoError(t, err)
	_, span := on.Tracer().Start(t.Context(), "first")
	span.End()
	on.Stop(t.Context(), silent)
	require.Equal(t, map[string]string{"first": "payonce"}, received.names)

	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_SERVICE_NAME": "shop"})
	on, err = tracing.FromEnvironment(t.Context(), silent)
	require.NoError(t, err)
	_, span = on.Tracer().Start(t.Context(), "second")
	span.End()
	on.Stop(t.Context(), silent)
	require.Equal(t, "shop", received.names["second"])

	var log bytes.Buffer
	received.fails = true
	on, err = tracing.FromEnvironment(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	_, span = on.Tracer().Start(t.Context(), "third")
	span.End()
	on.Stop(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
	require.Contains(t, log.String(), "traces could not be sent")
	require.NotContains(t, received.names, "third")
}

// Whatever a library puts into a span, only what is listed leaves.
func TestOnlyWhatIsListedLeaves(t *testing.T) {
	t.Parallel()
	memory := tracetest.NewInMemoryExporter()
	on, err := tracing.New(t.Context(), memory)
	require.NoError(t, err)
	secret := attribute.String("url.full", "https://secret.example/?card=4242")
	other, linked := on.Tracer().Start(t.Context(), "other")
	linked.End()
	_, span := on.Tracer().Start(t.Context(), "work", trace.WithAttributes(secret, attribute.String("http.route", "/v1/charges")),
		trace.WithLinks(trace.Link{SpanContext: trace.SpanContextFromContext(other), Attributes: []attribute.KeyValue{secret}}))
	span.AddEvent("event", trace.WithAttributes(secret))
	span.RecordError(errors.New("secret"))
	span.SetStatus(codes.Error, "secret")
	span.End()
	require.NoError(t, on.Flush(t.Context()))
	got := memory.GetSpans()[1]
	require.Equal(t, []attribute.KeyValue{attribute.String("http.route", "/v1/charges")}, got.Attributes)
	require.Equal(t, codes.Error, got.Status.Code)
	require.Empty(t, got.Status.Description)
	require.Len(t, got.Events, 2)
	require.Empty(t, got.Events[0].Attributes)
	require.Equal(t, []attribute.KeyValue{attribute.String("exception.type", "*errors.errorString")}, got.Events[1].Attributes)
	require.Len(t, got.Links, 1)
	require.Empty(t, got.Links[0].Attributes)
}

// The probes of a load balancer make no spans.
func TestExceptedPaths(t *testing.T) {
	t.Parallel()
	memory := tracetest.NewInMemoryExporter()
	on, err := tracing.New(t.Context(), memory)
	require.NoError(t, err)
	handler := on.Handler(http.NotFoundHandler(), "/healthz")
	for _, path := range []string{"/healthz", "/other"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	}
	require.NoError(t, on.Flush(t.Context()))
	require.Len(t, memory.GetSpans(), 1)
}
