// Package tracing sends OpenTelemetry traces of requests, SQL calls and calls of
// providers to a collector, when the standard environment variable
// OTEL_EXPORTER_OTLP_ENDPOINT names one. docs/observability.md lists the spans.
//
// Without it there is no Tracing: the methods of a nil *Tracing give back what
// they were given, so that nothing is paid for.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/payonce/payonce/internal/version"
)

// scope names the spans of this module's own.
const scope = "github.com/payonce/payonce"

// flushTime bounds sending the last spans when the program ends.
const flushTime = 5 * time.Second

// Tracing makes spans and sends them.
type Tracing struct {
	provider *sdktrace.TracerProvider
	http     []otelhttp.Option
}

// FromEnvironment starts tracing when the environment wants it, else it gives
// nil. The names and meanings are OpenTelemetry's
// (opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables).
func FromEnvironment(ctx context.Context, log *slog.Logger) (*Tracing, error) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	address := os.Getenv(endpoint)
	if address == "" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") ||
		os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil //nolint:nilnil // nil is tracing that is off
	}
	if to, err := url.Parse(address); err != nil || (to.Scheme != "http" && to.Scheme != "https") || to.Host == "" {
		return nil, fmt.Errorf("%s: it must be the URL of an OTLP collector, such as http://127.0.0.1:4318", endpoint)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if protocol := os.Getenv(name); protocol != "" && protocol != "http/protobuf" {
			return nil, fmt.Errorf("%s: %q is not supported; set http/protobuf and the collector's port for it, usually 4318",
				name, protocol)
		}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("traces could not be sent; what did not fit into the queue is lost", "error", err)
	}))
	return New(ctx, exporter)
}

// New makes a Tracing that sends to exporter, in the background.
// OTEL_TRACES_SAMPLER says which traces: all where it does not.
func New(ctx context.Context, exporter sdktrace.SpanExporter) (*Tracing, error) {
	// The detectors of processes are left out: a command line may hold a secret.
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "payonce"), attribute.String("service.version", version.Get().Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(described), sdktrace.WithBatcher(discreet{exporter}))
	return &Tracing{provider: provider, http: []otelhttp.Option{
		otelhttp.WithTracerProvider(provider),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()), // /metrics has them
		// Not baggage: what a client puts there is none of a provider's business.
		otelhttp.WithPropagators(propagation.TraceContext{}),
	}}, nil
}

// Stop sends what is left, whether ctx has ended or not.
func (t *Tracing) Stop(ctx context.Context, log *slog.Logger) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		log.WarnContext(ctx, "the last traces could not be sent", "error", err)
	}
}

// Flush sends what has ended.
func (t *Tracing) Flush(ctx context.Context) error {
	if err := t.provider.ForceFlush(ctx); err != nil {
		return fmt.Errorf("send the spans: %w", err)
	}
	return nil
}

// Handler makes a span for each request, below the span that its traceparent
// header names (www.w3.org/TR/trace-context), except for these paths.
func (t *Tracing) Handler(next http.Handler, except ...string) http.Handler {
	if t == nil {
		return next
	}
	return otelhttp.NewHandler(next, "", append(slices.Clone(t.http),
		otelhttp.WithFilter(func(r *http.Request) bool { return !slices.Contains(except, r.URL.Path) }))...)
}

// Transport makes a span for each request that is sent, and names it to the
// receiver in a traceparent header. nil is http.DefaultTransport. An upgrade goes
// through as it is: the library's body could not be closed in one direction only.
func (t *Tracing) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	if t == nil {
		return next
	}
	return otelhttp.NewTransport(next, append(slices.Clone(t.http),
		otelhttp.WithFilter(func(r *http.Request) bool { return r.Header.Get("Upgrade") == "" }))...)
}

// Client is a client for calls of providers; nil, which is http.DefaultClient,
// when tracing is off.
func (t *Tracing) Client() *http.Client {
	if t == nil {
		return nil
	}
	return &http.Client{Transport: t.Transport(nil)}
}

// Pool makes a span for each SQL call that is made below another span. It is
// named by the SQL function that is called.
func (t *Tracing) Pool(config *pgxpool.Config) {
	if t == nil {
		return
	}
	config.ConnConfig.Tracer = otelpgx.NewTracer(
		otelpgx.WithTracerProvider(t.provider), otelpgx.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelpgx.WithSpanNameFunc(statementName), otelpgx.WithDisableSQLStatementInAttributes(),
		// Told here once: for each call the library would copy the whole configuration.
		otelpgx.WithDisableConnectionDetailsInAttributes(), otelpgx.WithTracerAttributes(
			attribute.String("db.namespace", config.ConnConfig.Database),
			attribute.String("server.address", config.ConnConfig.Host)))
}

// Tracer begins traces of work that no request asked for.
func (t *Tracing) Tracer() trace.Tracer {
	if t == nil {
		return noop.Tracer{}
	}
	return t.provider.Tracer(scope)
}

var called = regexp.MustCompile(`\b(?:guard|payments)\.[a-z_]+`)

// statementName names a statement by what it calls or, where that is nothing of
// ours, by its first word.
func statementName(sql string) string {
	if name := called.FindString(sql); name != "" {
		return name
	}
	return otelpgx.SQLOperationName(context.Background(), sql)
}

// Start begins a span below the one of ctx: provider and operation together are
// its name. Where that is none, or one that is not recorded, it begins nothing.
func Start(ctx context.Context, provider, operation string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, noop.Span{}
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, provider+" "+operation)
}
