package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/payonce/payonce/internal/freeport"
	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/metrics/metricstest"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/proxy"
	"github.com/payonce/payonce/internal/tracing"
)

func TestConnectionRefusedReleases(t *testing.T) {
	t.Parallel()
	s := newService(t)
	address, err := freeport.Address(t.Context())
	require.NoError(t, err)
	s.serve("http://"+address, routes, slog.New(slog.DiscardHandler))
	refused := want{status: 503, code: "upstream_unavailable", header: map[string]string{"Retry-After": "1"}}
	for range 2 {
		got, err := s.perform(t.Context(), "refused", step{})
		require.NoError(t, err)
		refused.check(t, 0, got)
	}

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	service := &http.Server{Handler: s.upstream, ReadHeaderTimeout: patience}
	go func() { _ = service.Serve(listener) }()
	t.Cleanup(func() { _ = service.Close() })
	s.run(t, "refused", conformance{
		upstream: []reaction{made}, runs: 1,
		// Another body: nothing of the refused request is left.
		steps: []step{{body: "other", want: isMade}, {body: "other", want: isReplay}},
	})
}

func TestFailedHandshakeReleases(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.serve(strings.Replace(s.upstream.server.URL, "http:", "https:", 1), routes, slog.New(slog.DiscardHandler))
	s.upstream.plan("tls", nil)
	for _, body := range []string{"a", "b"} {
		got, err := s.perform(t.Context(), "tls", step{body: body})
		require.NoError(t, err)
		want{status: 503, code: "upstream_unavailable"}.check(t, 0, got)
	}
	require.Empty(t, s.upstream.requests("tls"))
}

// A connection that was kept may be closed by the upstream just when the next
// request comes. Nobody knows whether that request was read, so it must not be
// sent again, as net/http does with one that has an Idempotency-Key.
func TestNothingIsSentTwiceOnAKeptConnection(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var arrived atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived.Add(1)
		if r.URL.Path == "/close" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}
	}))
	t.Cleanup(service.Close)
	s.serve(service.URL, routes, slog.New(slog.DiscardHandler))
	for _, header := range []http.Header{{}, {"X-Idempotency-Key": {"mine"}}} {
		arrived.Store(0)
		name := "first" + header.Get("X-Idempotency-Key")
		got, err := s.perform(t.Context(), name, step{header: header})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status)
		got, err = s.perform(t.Context(), "then"+name, step{path: "/close", header: header})
		require.NoError(t, err)
		want{status: 502, code: "outcome_unknown"}.check(t, 1, got)
		require.EqualValues(t, 2, arrived.Load())
	}
}

// FF-01.
func TestFiftyAtOnceRunOnce(t *testing.T) {
	t.Parallel()
	s := newSetup(t, routes)
	s.upstream.plan("fifty", []reaction{{raw: made.raw, hold: true}})
	answers := make(chan answer, 50)
	for range 50 {
		go func() {
			got, _ := s.perform(t.Context(), "fifty", step{body: "a"})
			answers <- got
		}()
	}
	for range 49 {
		want{status: 409, code: "key_in_progress"}.check(t, 0, <-answers)
	}
	s.upstream.letGo("fifty")
	isMade.check(t, 0, <-answers)
	require.Len(t, s.upstream.requests("fifty"), 1)
}

// FF-18: past the limit the answer goes on to the caller as it comes, and the
// key has ended already.
func TestLargeAnswerStreams(t *testing.T) {
	t.Parallel()
	s := newService(t)
	goOn := make(chan struct{})
	const limit = 1000 // of /small
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", limit+1))
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, "the end")
	}))
	t.Cleanup(service.Close)
	s.serve(service.URL, routes, slog.New(slog.DiscardHandler))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/small", nil)
	require.NoError(t, err)
	request.Header.Set("Idempotency-Key", "large")
	response, err := s.client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	_, err = io.ReadFull(response.Body, make([]byte, limit+1))
	require.NoError(t, err, "while the upstream has not ended its answer")
	got, err := s.perform(t.Context(), "large", step{path: "/small"})
	require.NoError(t, err)
	want{status: 409, code: "answer_not_stored", replayed: true}.check(t, 1, got)
	close(goOn)
	rest, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "the end", string(rest))
}

func TestUnguardedRequestsStream(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) { t.Parallel(); streams(t, newService(t)) })
	t.Run("traced", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		traced(t, s)
		streams(t, s)
	})
}

func streams(t *testing.T, s *setup) {
	t.Helper()
	goOn := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			<-goOn
			_, _ = io.WriteString(w, "data: 2\n\n")
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		said, _ := io.ReadAll(buffered)
		_, _ = io.WriteString(conn, "you said "+string(said))
	}))
	t.Cleanup(service.Close)
	s.serve(service.URL, routes, slog.New(slog.DiscardHandler))

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/off", nil)
	require.NoError(t, err)
	request.Header.Set("Accept", "text/event-stream")
	response, err := s.client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	events := bufio.NewReader(response.Body)
	event, err := events.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "data: 1\n", event, "before the stream ends")
	close(goOn)
	rest, err := io.ReadAll(events)
	require.NoError(t, err)
	require.Equal(t, "\ndata: 2\n\n", string(rest))

	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, "GET /chat HTTP/1.1\r\nHost: shop\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	require.NoError(t, err)
	reader := bufio.NewReader(conn)
	switched, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	require.NoError(t, switched.Body.Close())
	require.Equal(t, http.StatusSwitchingProtocols, switched.StatusCode)
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite()) //nolint:forcetypeassert // dialled so
	text, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.Equal(t, "you said hello", string(text))
}

func TestWhatTheUpstreamIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config, base string
		want         map[string]string
	}{
		"by default": {want: map[string]string{
			"host": "upstream", "uri": "/pay?a=1", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "shop.example",
			"X-Forwarded-Proto": "http", "Forwarded": "",
		}},
		"below a path": {base: "/api", want: map[string]string{"uri": "/api/pay?a=1"}},
		"preserve_host": {config: "preserve_host: true", want: map[string]string{
			"host": "shop.example", "X-Forwarded-For": "127.0.0.1",
		}},
		"trust_forwarded": {config: "trust_forwarded: true", want: map[string]string{
			"host": "upstream", "X-Forwarded-For": "1.2.3.4, 127.0.0.1", "X-Forwarded-Host": "public.example",
			"X-Forwarded-Proto": "https", "Forwarded": "for=1.2.3.4",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			s.serve(s.upstream.server.URL+c.base, c.config, slog.New(slog.DiscardHandler))
			s.upstream.plan("told", []reaction{made})
			got, err := s.rawRequest(t.Context(), "POST /pay?a=1 HTTP/1.1\r\nHost: shop.example\r\nX-Case: told\r\n"+
				"Idempotency-Key: told\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: public.example\r\n"+
				"X-Forwarded-Proto: https\r\nForwarded: for=1.2.3.4\r\nContent-Length: 0\r\n\r\n", http.MethodPost, false)
			require.NoError(t, err)
			isMade.check(t, 0, got)
			told := s.upstream.requests("told")[0]
			for field, value := range c.want {
				switch field {
				case "host":
					require.Equal(t, strings.Replace(value, "upstream", s.upstream.server.Listener.Addr().String(), 1), told.host)
				case "uri":
					require.Equal(t, value, told.uri)
				default:
					require.Equal(t, value, strings.Join(told.header.Values(field), ", "), field)
				}
			}
		})
	}
}

// logBook is a log that can be read while it is written.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line) //nolint:wrapcheck // never fails
}

// lines are those with one message, as soon as there are so many.
func (l *logBook) lines(t *testing.T, message string, count int) []map[string]any {
	t.Helper()
	var found []map[string]any
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		found = nil
		for text := range strings.Lines(l.text.String()) {
			var line map[string]any
			if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
				found = append(found, line)
			}
		}
		return len(found) >= count
	}, patience, time.Millisecond)
	return found
}

func bookLog(book *logBook) *slog.Logger {
	return slog.New(httpguard.LogHandler(slog.NewJSONHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

// No credential, key or body is logged, nor stored anywhere but as a hash.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	s := newService(t)
	book := &logBook{}
	s.serve(s.upstream.server.URL, "", bookLog(book))
	const secret = "sk_live_4711"
	header := http.Header{"Authorization": {"Bearer " + secret}, "X-Request-Id": {"r-1"}}
	s.upstream.plan("logged-key", []reaction{made, {raw: http11(200, "", "ok")}})
	s.upstream.plan("logged-cut", []reaction{{cut: true}})
	for _, one := range []struct{ name, method, body, outcome string }{
		{"logged-key", http.MethodPost, "card 4242", "claimed"}, {"logged-key", http.MethodPost, "card 4242", "replay"},
		{"logged-key", http.MethodPost, "other", "mismatch"}, {"logged-key", http.MethodGet, "", "unguarded"},
		{"logged-cut", http.MethodPost, "card 4242", "in_doubt"},
	} {
		_, err := s.perform(t.Context(), one.name, step{method: one.method, body: one.body, header: header})
		require.NoError(t, err)
	}
	var outcomes []any
	for _, line := range book.lines(t, "request", 5) {
		outcomes = append(outcomes, line["outcome"])
		require.Equal(t, "r-1", line["request_id"])
		require.Equal(t, "/pay", line["path"])
		require.Contains(t, line, "duration_ms")
		require.Contains(t, line, "bytes")
		if line["outcome"] != "unguarded" {
			require.Regexp(t, `^proxy/upstream/header/[0-9a-f]{64}$`, line["scope"])
			require.Regexp(t, `^[0-9a-f]{12}$`, line["key_hash"])
		}
	}
	require.Equal(t, []any{"completed", "replay", "mismatch", "unguarded", "in_doubt"}, outcomes)
	require.Equal(t, "r-1", book.lines(t, "upstream failed", 1)[0]["request_id"])
	var rows string
	require.NoError(t, s.owner.QueryRow(t.Context(), `SELECT pg_catalog.string_agg(k::text, E'\n')
	  FROM guard.idempotency_keys AS k`).Scan(&rows))
	for _, private := range []string{secret, "4242"} {
		require.NotContains(t, book.text.String(), private)
		require.NotContains(t, rows, private)
	}
	require.NotContains(t, book.text.String(), "logged-key")
}

// Without a claim no work, and without work no claim.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	s := newService(t)
	config, err := pgxpool.ParseConfig("postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	target, err := url.Parse(s.upstream.server.URL)
	require.NoError(t, err)
	s.handler, err = proxy.New(proxy.Options{
		Upstream: target, Config: proxy.DefaultConfig(), Connections: proxy.DefaultConnections(), Pool: pool,
		Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	s.url = server.URL
	s.upstream.plan("away", []reaction{{raw: http11(200, "", "ok")}})
	got, err := s.perform(t.Context(), "away", step{})
	require.NoError(t, err)
	want{status: 503, code: "database_unavailable", header: map[string]string{"Retry-After": "1"}}.check(t, 0, got)
	require.Empty(t, s.upstream.requests("away"))
	got, err = s.perform(t.Context(), "away", step{method: http.MethodGet})
	require.NoError(t, err)
	want{status: 200, body: "ok"}.check(t, 1, got)
	require.Equal(t, http.StatusServiceUnavailable, s.probe("/readyz"))
}

// The caller gets an answer that could not be stored; its retry runs nothing.
func TestAnswerThatCannotBeStored(t *testing.T) {
	t.Parallel()
	s := newSetup(t, routes)
	s.upstream.plan("lost", []reaction{{raw: made.raw, hold: true}})
	pending := make(chan answer, 1)
	go func() {
		got, _ := s.perform(t.Context(), "lost", step{path: "/short"})
		pending <- got
	}()
	<-s.upstream.arrived("lost")
	_, err := s.owner.Exec(t.Context(), `REVOKE EXECUTE ON FUNCTION guard.complete FROM payonce_app`)
	require.NoError(t, err)
	s.upstream.letGo("lost")
	isMade.check(t, 0, <-pending)
	require.Eventually(t, func() bool {
		got, err := s.perform(t.Context(), "lost", step{path: "/short"})
		require.NoError(t, err)
		require.Equal(t, http.StatusConflict, got.status)
		return got.code() == "outcome_unknown"
	}, patience, 50*time.Millisecond, "when the lease has ended")
	require.Len(t, s.upstream.requests("lost"), 1)
}

func TestProbes(t *testing.T) {
	t.Parallel()
	s := newSetup(t, "")
	require.Equal(t, http.StatusNoContent, s.probe("/healthz"))
	require.Equal(t, http.StatusNoContent, s.probe("/readyz"))
	require.Equal(t, http.StatusNotFound, s.probe("/pay"))
	s.handler.Drain()
	require.Equal(t, http.StatusNoContent, s.probe("/healthz"))
	require.Equal(t, http.StatusServiceUnavailable, s.probe("/readyz"))
	s.upstream.plan("drained", []reaction{made})
	got, err := s.perform(t.Context(), "drained", step{})
	require.NoError(t, err)
	isMade.check(t, 0, got)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newSetup(t, routes)
	s.upstream.plan("first", []reaction{made})
	s.upstream.plan("lost", []reaction{{cut: true}})
	s.upstream.plan("read", []reaction{{raw: http11(200, "", "there")}})
	send := func(name, path, body string) {
		t.Helper()
		_, err := s.send(t.Context(), name, http.MethodPost, path, body, http.Header{"Idempotency-Key": {name}})
		require.NoError(t, err)
	}
	send("first", "/json", `{"a":1}`)
	send("first", "/json", `{"a":1}`)
	send("first", "/json", `{"a":2}`)
	send("lost", "/pay", "{}")
	send("lost", "/pay", "{}")
	_, err := s.send(t.Context(), "read", "GET", "/made-up", "", nil)
	require.NoError(t, err)

	recorder := httptest.NewRecorder()
	s.handler.Probes().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, recorder.Code)
	require.NotContains(t, recorder.Body.String(), "made-up")
	got := metricstest.Parse(t, recorder.Body.String())
	require.EqualValues(t, 3, got.Value("claims_total", "work", "proxied", "outcome", "claimed"))
	require.EqualValues(t, 1, got.Value("claims_total", "work", "proxied", "outcome", "replay"))
	require.EqualValues(t, 1, got.Value("claims_total", "work", "proxied", "outcome", "mismatch"))
	require.EqualValues(t, 1, got.Value("attempts_total", "work", "proxied", "end", "completed"))
	require.EqualValues(t, 2, got.Value("attempts_total", "work", "proxied", "end", "in_doubt"))
	require.EqualValues(t, 1, got.Value("lease_takeovers_total", "work", "proxied", "by", "request"))
	require.EqualValues(t, 3, got.Value("http_requests_total", "route", "/json"))
	require.EqualValues(t, 2, got.Value("http_requests_total", "route", "default"))
	require.EqualValues(t, 1, got.Value("http_requests_total", "route", "unguarded", "status", "200"))
	require.EqualValues(t, 1, got.Value("keys", "state", "in_doubt"))
	require.EqualValues(t, 1, got.Value("keys", "state", "completed"))
	require.False(t, got.Has("outbox_undelivered"), "the proxy has no outbox")
}

// traced has the proxy, which is not there yet, send its spans to memory.
func traced(t *testing.T, s *setup) *tracetest.InMemoryExporter {
	t.Helper()
	memory := tracetest.NewInMemoryExporter()
	var err error
	s.tracing, err = tracing.New(t.Context(), memory)
	require.NoError(t, err)
	return memory
}

// A client's trace goes on through the claim to the service behind the proxy,
// and tells nothing that a log may not.
func TestTrace(t *testing.T) {
	t.Parallel()
	s := newService(t)
	memory := traced(t, s)
	book := &logBook{}
	s.serve(s.upstream.server.URL, routes, bookLog(book))
	s.upstream.plan("traced", []reaction{made})
	const traceID, client = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	header := http.Header{
		"Idempotency-Key": {"traced"}, "Traceparent": {"00-" + traceID + "-" + client + "-01"},
		"Authorization": {"Bearer sk_live_4711"},
	}
	got, err := s.send(t.Context(), "traced", http.MethodPost, "/json?card=4242", `{"card":"4242"}`, header)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, got.status, got.body)

	require.NoError(t, s.tracing.Flush(t.Context()))
	parents := map[string]string{}
	ids := map[string]string{}
	for _, span := range memory.GetSpans() {
		require.Equal(t, traceID, span.SpanContext.TraceID().String(), span.Name)
		parents[span.Name], ids[span.Name] = span.Parent.SpanID().String(), span.SpanContext.SpanID().String()
	}
	require.Equal(t, client, parents["POST /json"])
	for _, name := range []string{"guard.claim", "HTTP POST", "guard.complete"} {
		require.Equal(t, ids["POST /json"], parents[name], name)
	}
	require.Equal(t, "00-"+traceID+"-"+ids["HTTP POST"]+"-01", s.upstream.requests("traced")[0].header.Get("Traceparent"))
	require.Equal(t, traceID, book.lines(t, "request", 1)[0]["trace_id"])
	spans := fmt.Sprintf("%+v", memory.GetSpans())
	for _, private := range []string{"sk_live_4711", "4242", `"traced"`} {
		require.NotContains(t, spans, private)
		require.NotContains(t, book.text.String(), private)
	}
}

func (s *setup) probe(path string) int {
	recorder := httptest.NewRecorder()
	s.handler.Probes().ServeHTTP(recorder, httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, path, nil))
	return recorder.Code
}

func TestUpstreamsThatAreRefused(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(context.Background(), newService(t).db.AppURL, guard.Statements()...)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for _, text := range []string{"", "shop", "//shop", "ftp://shop", "http://", "http://me:pw@shop", "http://shop?a=1", "http://shop#a"} {
		target, err := url.Parse(text)
		require.NoError(t, err)
		_, err = proxy.New(proxy.Options{
			Upstream: target, Config: proxy.DefaultConfig(), Pool: pool, Log: slog.New(slog.DiscardHandler),
		})
		require.ErrorContains(t, err, "upstream", text)
		require.NotContains(t, err.Error(), "pw")
	}
}
