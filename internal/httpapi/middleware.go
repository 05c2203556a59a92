package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
)

// requestInfo is what the handlers tell the access log. It holds no secret:
// of an idempotency key only a hash.
type requestInfo struct {
	id       string
	merchant string
	orderID  string
	keyHash  string
	outcome  string
}

type requestInfoKey struct{}

func infoOf(ctx context.Context) *requestInfo {
	if info, ok := ctx.Value(requestInfoKey{}).(*requestInfo); ok {
		return info
	}
	return &requestInfo{}
}

// shortHash names a key in the log without telling it.
func shortHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:6])
}

// answered records what was sent, for the access log and so that a recovered
// panic does not write a second answer.
type answered struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (a *answered) WriteHeader(status int) {
	if a.status == 0 {
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

// observed gives each request an id, logs its end and turns a panic into a
// 500. It wraps the router, since middleware inside a mux router does not run
// for its 404 and 405 answers.
func observed(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		info := &requestInfo{id: requestID(r)}
		ctx := context.WithValue(r.Context(), requestInfoKey{}, info)
		answer := &answered{ResponseWriter: w}
		answer.Header().Set("X-Request-Id", info.id)
		defer func() {
			//nolint:errorlint // the panic value itself is compared, as net/http does
			if thrown := recover(); thrown != nil {
				if thrown == http.ErrAbortHandler {
					panic(thrown)
				}
				log.ErrorContext(ctx, "handler panicked", "request_id", info.id, "panic", thrown,
					"stack", string(debug.Stack()))
				if answer.status == 0 {
					writeProblem(answer, internalError.problem())
				}
			}
			log.InfoContext(ctx, "request", "request_id", info.id, "method", r.Method, "path", r.URL.Path,
				"status", answer.status, "bytes", answer.bytes, "duration_ms", milliseconds(time.Since(start)),
				"merchant", info.merchant, "order_id", info.orderID, "key_hash", info.keyHash, "outcome", info.outcome)
		}()
		next.ServeHTTP(answer, r.WithContext(ctx))
	})
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// requestID takes over the id of a proxy in front where it is harmless in a log.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 128 && printable(id) {
		return id
	}
	return uuid.NewString()
}
