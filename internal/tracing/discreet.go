package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
)

// discreet lets nothing out of a span that might hold a secret, whichever
// library put it there: of attributes only those that are listed, of errors only
// their type. An error's text may quote a URL, a value or an answer; the log line
// with the same trace id tells it.
type discreet struct{ trace.SpanExporter }

// attributes are those that may leave. None has a value from a body, a header,
// a path, a query or an argument of SQL, apart from the order id.
var attributes = map[attribute.Key]bool{
	"http.request.method":       true,
	"http.response.status_code": true,
	"http.route":                true,
	"http.request.body.size":    true,
	"http.response.body.size":   true,
	"network.protocol.name":     true,
	"network.protocol.version":  true,
	"server.address":            true,
	"server.port":               true,
	"url.scheme":                true,
	"error.type":                true,
	"exception.type":            true,
	"db.system.name":            true,
	"db.namespace":              true,
	"pgx.operation.type":        true,
	"pgx.rows_affected":         true,
	"pgx.sql_state":             true,
	RequestID:                   true,
	KeyHash:                     true,
	OrderID:                     true,
	Outcome:                     true,
	Verdict:                     true,
	Code:                        true,
}

// The attributes of our own.
const (
	RequestID = attribute.Key("payonce.request_id")
	// KeyHash is of the idempotency key, as in the log.
	KeyHash = attribute.Key("payonce.key_hash")
	OrderID = attribute.Key("payonce.order_id")
	Outcome = attribute.Key("payonce.outcome")
	// Verdict is what a provider's answer meant.
	Verdict = attribute.Key("payonce.verdict")
	// Code is the provider's own.
	Code = attribute.Key("payonce.provider_code")
)

// ExportSpans implements trace.SpanExporter.
func (d discreet) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	cleaned := make([]trace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		cleaned[i] = clean{span}
	}
	return d.SpanExporter.ExportSpans(ctx, cleaned) //nolint:wrapcheck // the processor reports it
}

// clean is a span without what is kept back.
type clean struct{ trace.ReadOnlySpan }

func allowed(all []attribute.KeyValue) []attribute.KeyValue {
	kept := make([]attribute.KeyValue, 0, len(all))
	for _, one := range all {
		if attributes[one.Key] {
			kept = append(kept, one)
		}
	}
	return kept
}

// Attributes implements trace.ReadOnlySpan.
func (c clean) Attributes() []attribute.KeyValue { return allowed(c.ReadOnlySpan.Attributes()) }

// Events implements trace.ReadOnlySpan.
func (c clean) Events() []trace.Event {
	events := append([]trace.Event(nil), c.ReadOnlySpan.Events()...)
	for i := range events {
		events[i].Attributes = allowed(events[i].Attributes)
	}
	return events
}

// Links implements trace.ReadOnlySpan.
func (c clean) Links() []trace.Link {
	links := append([]trace.Link(nil), c.ReadOnlySpan.Links()...)
	for i := range links {
		links[i].Attributes = allowed(links[i].Attributes)
	}
	return links
}

// Status implements trace.ReadOnlySpan.
func (c clean) Status() trace.Status { return trace.Status{Code: c.ReadOnlySpan.Status().Code} }
