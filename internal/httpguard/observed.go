package httpguard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/payonce/payonce/internal/metrics"
	"github.com/payonce/payonce/internal/tracing"
)

// RequestInfo is what the handlers tell the access log. It holds no secret:
// of an idempotency key only a hash.
type RequestInfo struct {
	ID    string
	Scope string
	// APIKey is the id of the api key that the request was admitted with.
	APIKey  string
	OrderID string
	KeyHash string
	Outcome string
	// Route is the template of the route that matched.
	Route string
}

type requestInfoKey struct{}

// InfoOf returns what the access log will say of the request.
func InfoOf(ctx context.Context) *RequestInfo {
	if info, ok := ctx.Value(requestInfoKey{}).(*RequestInfo); ok {
		return info
	}
	return &RequestInfo{}
}

// ShortHash names a key in the log without telling it.
func ShortHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:6])
}

// describe names the request's span, when there is one, by its route and tells
// what the access log tells.
func (info *RequestInfo) describe(span trace.Span, method string) {
	if !span.IsRecording() {
		return
	}
	if info.Route != "" {
		span.SetName(metrics.Method(method) + " " + info.Route)
		span.SetAttributes(attribute.String("http.route", info.Route))
	}
	for key, value := range map[attribute.Key]string{
		tracing.RequestID: info.ID, tracing.KeyHash: info.KeyHash, tracing.OrderID: info.OrderID, tracing.Outcome: info.Outcome,
	} {
		if value != "" {
			span.SetAttributes(key.String(value))
		}
	}
}

// answered records what was sent, for the access log and so that a recovered
// panic does not write a second answer.
type answered struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (a *answered) WriteHeader(status int) {
	// An informational answer is not yet the answer; a switch of protocols is.
	if a.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Write(body []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(body)
	a.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Observed gives each request an id, logs and counts its end and turns a panic
// into a 500. It wraps the router, since middleware inside a mux router does not run
// for its 404 and 405 answers.
func Observed(log *slog.Logger, count *metrics.Metrics, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		info := &RequestInfo{ID: requestID(r)}
		ctx := context.WithValue(r.Context(), requestInfoKey{}, info)
		answer := &answered{ResponseWriter: w}
		answer.Header().Set("X-Request-Id", info.ID)
		defer func() {
			took := time.Since(start)
			count.Request(info.Route, r.Method, answer.status, took)
			info.describe(trace.SpanFromContext(ctx), r.Method)
			log.InfoContext(ctx, "request", "method", r.Method, "path", Brief(r.URL.Path), "status", answer.status,
				"bytes", answer.bytes, "duration_ms", milliseconds(took), "scope", info.Scope, "api_key", info.APIKey, "outcome", info.Outcome)
		}()
		defer func() {
			thrown := recover()
			if thrown == nil {
				return
			}
			//nolint:errorlint // the panic value itself is compared, as net/http does
			if thrown == http.ErrAbortHandler {
				panic(thrown)
			}
			log.ErrorContext(ctx, "handler panicked", "panic", thrown, "stack", string(debug.Stack()))
			if answer.status == 0 {
				WriteProblem(answer, InternalError.Problem())
			}
		}()
		next.ServeHTTP(answer, r.WithContext(ctx))
	})
}

// maxLogged bounds what a client can put into one field of the log, in bytes.
const maxLogged = 512

// Brief is a text that a client made as long as it liked, for the log.
func Brief(text string) string {
	if len(text) <= maxLogged {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:maxLogged], len(text))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// requestID takes over the id of a proxy in front where it is harmless in a log.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 128 && Printable(id) {
		return id
	}
	return uuid.NewString()
}
