package httpguard

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler adds to each line that is logged while a request is served which
// request that is: request_id, trace_id when it is traced, key_hash and order_id
// as soon as they are known. A line that tells one of them itself keeps its own.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	info := InfoOf(ctx)
	traceID := ""
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		traceID = span.TraceID().String()
	}
	for _, known := range [...]struct{ name, value string }{
		{"request_id", info.ID}, {"trace_id", traceID}, {"key_hash", info.KeyHash}, {"order_id", info.OrderID},
	} {
		if known.value != "" && !tells(record, known.name) {
			record.AddAttrs(slog.String(known.name, known.value))
		}
	}
	return h.Handler.Handle(ctx, record) //nolint:wrapcheck // it is the handler's own
}

func tells(record slog.Record, name string) (told bool) {
	record.Attrs(func(attr slog.Attr) bool {
		told = attr.Key == name
		return !told
	})
	return told
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
