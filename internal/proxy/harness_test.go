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
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/proxy"
	"github.com/payonce/payonce/internal/tracing"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// seen is a request as the upstream got it.
type seen struct {
	method, uri, host, body string
	header, trailer         http.Header
}

// reaction is what the upstream does with one request.
type reaction struct {
	// raw is written to the connection, byte for byte.
	raw string
	// cut closes the connection afterwards, without and with a reset.
	cut, reset bool
	// hold waits until the test lets go, before anything is written.
	hold bool
}

// upstream is a service that misbehaves as told.
type upstream struct {
	t      *testing.T
	server *httptest.Server

	mu     sync.Mutex
	plans  map[string][]reaction
	got    map[string][]seen
	arrive map[string]chan struct{}
	gates  map[string]chan struct{}
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{
		t: t, plans: map[string][]reaction{}, got: map[string][]seen{},
		arrive: map[string]chan struct{}{}, gates: map[string]chan struct{}{},
	}
	u.server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.server.CloseClientConnections()
		u.server.Close()
	})
	return u
}

// plan sets what happens to the requests of a case, in this order.
func (u *upstream) plan(name string, reactions []reaction) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.plans[name] = reactions
	u.arrive[name] = make(chan struct{}, 100)
	u.gates[name] = make(chan struct{})
}

func (u *upstream) requests(name string) []seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.got[name]
}

func (u *upstream) letGo(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.gates[name])
	u.gates[name] = make(chan struct{})
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	name := r.Header.Get("X-Case")
	u.mu.Lock()
	number := len(u.got[name])
	u.got[name] = append(u.got[name], seen{
		method: r.Method, uri: r.RequestURI, host: r.Host, body: string(body), header: r.Header.Clone(),
		trailer: r.Trailer.Clone(),
	})
	plan, gate, arrive := u.plans[name], u.gates[name], u.arrive[name]
	u.mu.Unlock()
	if number >= len(plan) {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	arrive <- struct{}{}
	do := plan[number]
	if do.hold {
		select {
		case <-gate:
		case <-time.After(patience):
		}
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		u.t.Error("hijack:", err)
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(buffered, do.raw)
	_ = buffered.Flush()
	switch {
	case do.reset:
		_ = conn.(*net.TCPConn).SetLinger(0)
	case do.cut:
	default:
		// The peer hangs up first: it has the whole answer, or waits no longer.
		_, _ = conn.Read(make([]byte, 1))
	}
}

// setup is a proxy in front of an upstream, with a database of its own.
type setup struct {
	t        *testing.T
	upstream *upstream
	db       *pgtest.DB
	owner    *pgxpool.Pool
	client   *http.Client
	// url and address are the proxy's.
	url, address string
	// handler is nil where the proxy is a process of its own.
	handler *proxy.Proxy
	tracing *tracing.Tracing // nil: none
}

// newSetup has the handler in this process, which the race detector sees.
func newSetup(t *testing.T, routes string) *setup {
	t.Helper()
	s := newService(t)
	s.serve(s.upstream.server.URL, routes, slog.New(slog.DiscardHandler))
	return s
}

// newService is a setup without a proxy.
func newService(t *testing.T) *setup {
	t.Helper()
	s := &setup{t: t, upstream: newUpstream(t), db: pgtest.New(t), client: newClient(t)}
	s.owner = s.db.Pool(t)
	return s
}

func (s *setup) serve(upstreamURL, routes string, log *slog.Logger) {
	s.t.Helper()
	config, err := proxy.ParseConfig([]byte(routes))
	require.NoError(s.t, err)
	database, err := pgxpool.ParseConfig(s.db.AppURL)
	require.NoError(s.t, err)
	s.tracing.Pool(database)
	pool, err := postgres.OpenConfig(s.t.Context(), database, guard.Statements()...)
	require.NoError(s.t, err)
	s.t.Cleanup(pool.Close)
	target, err := url.Parse(upstreamURL)
	require.NoError(s.t, err)
	s.handler, err = proxy.New(proxy.Options{
		Upstream: target, Config: config, Connections: proxy.DefaultConnections(), Pool: pool, Log: log,
		Tracing: s.tracing,
	})
	require.NoError(s.t, err)
	server := httptest.NewServer(s.tracing.Handler(s.handler))
	s.t.Cleanup(server.Close)
	s.url, s.address = server.URL, server.Listener.Addr().String()
}

// newClient does nothing on its own: it follows no redirect, unpacks no body,
// and sends no request again, as net/http does on a connection used before.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       patience,
	}
}

// answer is a response, read to its end.
type answer struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	early   []int // informational statuses
	broken  bool  // cut before its end
}

func (a answer) code() string {
	var object struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal([]byte(a.body), &object)
	return object.Code
}

// readAll reads a response to its end, or to where it was cut.
func readAll(response *http.Response) answer {
	body, err := io.ReadAll(response.Body)
	return answer{
		status: response.StatusCode, header: response.Header, trailer: response.Trailer, body: string(body), broken: err != nil,
	}
}

// rawRequest writes text to the proxy as it is, and reads the answers. A
// client that is done sends no more.
func (s *setup) rawRequest(ctx context.Context, text, method string, done bool) (answer, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		return answer{}, err
	}
	if done {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil { //nolint:forcetypeassert // dialled so
			return answer{}, err
		}
	}
	reader := bufio.NewReader(conn)
	var early []int
	for {
		response, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil {
			return answer{}, err
		}
		got := readAll(response)
		_ = response.Body.Close()
		if response.StatusCode >= http.StatusOK {
			got.early = early
			return got, nil
		}
		early = append(early, response.StatusCode)
	}
}

func (s *setup) send(ctx context.Context, name, method, path, body string, header http.Header) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewBufferString(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("X-Case", name)
	for key, values := range header {
		request.Header[key] = values
	}
	response, err := s.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	return readAll(response), nil
}

// inspect shows the key of a case, as an operator sees it.
func (s *setup) inspect(name string) (scope, state string, fence int64) {
	s.t.Helper()
	const sql = `SELECT k.scope, i.state, i.fence FROM guard.idempotency_keys AS k
	  CROSS JOIN LATERAL guard.inspect(p_scope => k.scope, p_key => k.key) AS i WHERE k.key = $1`
	require.NoError(s.t, s.owner.QueryRow(context.Background(), sql, name).Scan(&scope, &state, &fence))
	return scope, state, fence
}

// operate does what an operator does to the key of a case.
func (s *setup) operate(name, what string) {
	s.t.Helper()
	scope, _, fence := s.inspect(name)
	holder := guard.Holder{Scope: scope, Key: name, Fence: fence}
	ctx := context.Background()
	var err error
	switch what {
	case "release":
		_, err = guard.Release(ctx, s.owner, holder)
	case "complete":
		_, err = guard.Complete(ctx, s.owner, holder, guard.Response{Status: 201, Body: []byte("found out")})
	case "outlast":
		// Longer than the lease of /short: only its extension can keep the key.
		time.Sleep(1500 * time.Millisecond)
	case "lapse":
		_, err = s.owner.Exec(ctx, `UPDATE guard.idempotency_keys SET lease_until = clock_timestamp() WHERE key = $1`, name)
	case "expire":
		_, err = s.owner.Exec(ctx, `UPDATE guard.idempotency_keys SET expires_at = clock_timestamp(),
		  lease_until = clock_timestamp() WHERE key = $1`, name)
	default:
		err = fmt.Errorf("no such thing to do: %s", what)
	}
	require.NoError(s.t, err)
}

// http11 writes a response as a server sends it.
func http11(status int, header, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), header, len(body), body)
}

// chunked writes a response of unknown length.
func chunked(status int, header string, trailer string, chunks ...string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "HTTP/1.1 %d %s\r\n%sTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n", status, http.StatusText(status), header)
	for _, chunk := range chunks {
		fmt.Fprintf(&text, "%x\r\n%s\r\n", len(chunk), chunk)
	}
	fmt.Fprintf(&text, "0\r\n%s\r\n", trailer)
	return text.String()
}
