// Package proxy is the guard in front of any HTTP service: a reverse proxy
// that claims a request's idempotency key before it passes the request on, and
// stores what the service answered.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/net/http/httpguts"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/metrics"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/tracing"
)

// The headers that the upstream gets besides the client's.
const (
	keyHeader = "Idempotency-Key"
	// recoveredHeader: an earlier request with this key may have done the work.
	recoveredHeader = "Idempotency-Recovered"
	// downstreamHeader is a key for the calls that the upstream makes in turn.
	downstreamHeader = "Idempotency-Downstream-Key"
)

const (
	// claimWithin bounds a claim, which holds up a client.
	claimWithin = 5 * time.Second
	// busyWait bounds the wait for a free connection before anything has begun.
	busyWait = time.Second
	// bodyWithin bounds how long a client may take to send a guarded body.
	bodyWithin = 30 * time.Second
	// resolveAfter is when a client should ask again for what an operator has to
	// find out first.
	resolveAfter = time.Minute
)

// Options are what a proxy is made of.
type Options struct {
	// Upstream is the service: scheme, host and perhaps a path that is put in
	// front of each request's.
	Upstream    *url.URL
	Config      Config
	Connections Connections
	Pool        *pgxpool.Pool
	Log         *slog.Logger
	// Tracing is nil when there is none.
	Tracing *tracing.Tracing
}

// Proxy is the handler in front of the upstream.
type Proxy struct {
	upstream *url.URL
	config   Config
	pool     *pgxpool.Pool
	// claims fail early when every connection is in use; what has begun may wait
	// for one.
	claims, ends *postgres.Bounded
	metrics      *metrics.Metrics
	log          *slog.Logger
	transport    http.RoundTripper
	routes       *mux.Router
	handler      http.Handler
	draining     atomic.Bool
	halted       context.Context //nolint:containedctx // the life of the proxy, not of a call
	halt         context.CancelFunc
}

// New makes a proxy.
func New(options Options) (*Proxy, error) {
	upstream := options.Upstream
	if (upstream.Scheme != "http" && upstream.Scheme != "https") || upstream.Host == "" {
		return nil, fmt.Errorf("upstream %q: it must be http://HOST or https://HOST", upstream.Redacted())
	}
	if upstream.User != nil || upstream.RawQuery != "" || upstream.Fragment != "" {
		return nil, errors.New("upstream: it can have no user, query or fragment")
	}
	halted, halt := context.WithCancel(context.Background())
	p := &Proxy{
		upstream: upstream, config: options.Config, log: options.Log,
		transport: options.Tracing.Transport(newTransport(options.Connections)),
		pool:      options.Pool, metrics: metrics.New(options.Pool, options.Log),
		claims: postgres.NewBounded(options.Pool, busyWait),
		ends:   postgres.NewBounded(options.Pool, endWithin), halted: halted, halt: halt,
	}
	p.routes = mux.NewRouter().SkipClean(true)
	for i := range p.config.Routes {
		route := &p.config.Routes[i]
		matched := p.routes.Handle(route.Path, p.under(route.Path, &route.Rule))
		if len(route.Methods) > 0 {
			matched.Methods(route.Methods...)
		}
		if err := matched.GetError(); err != nil {
			return nil, fmt.Errorf("route %s: %w", route.Path, err)
		}
	}
	p.routes.NotFoundHandler = p.under("default", &p.config.Defaults)
	p.routes.MethodNotAllowedHandler = p.routes.NotFoundHandler
	p.handler = httpguard.Observed(p.log, p.metrics, http.HandlerFunc(p.route))
	return p, nil
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// Drain makes /readyz of Probes say no, so that no new requests are sent here;
// those that come all the same are answered.
func (p *Proxy) Drain() { p.draining.Store(true) }

// Halt ends what the upstream still works at for a guarded request: it is left
// in doubt at once, so that the proxy can stop without waiting for it.
func (p *Proxy) Halt() { p.halt() }

// Probes answers /healthz, /readyz and /metrics, on an address of its own: every path of
// the proxy's own address belongs to the upstream.
func (p *Proxy) Probes() http.Handler {
	probes := http.NewServeMux()
	probes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	probes.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		bounded, cancel := context.WithTimeout(r.Context(), claimWithin)
		defer cancel()
		if p.draining.Load() {
			httpguard.RetryAfter(w, time.Second)
			httpguard.WriteProblem(w, httpguard.Stopping.Problem())
			return
		}
		if err := p.pool.Ping(bounded); err != nil {
			httpguard.FailDatabase(w, r, p.log, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	probes.Handle("GET /metrics", p.metrics.Handler())
	return probes
}

// route finds the rule for a request.
func (p *Proxy) route(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		httpguard.WriteProblem(w, httpguard.MethodNotAllowed.Problem())
	case safe(r.Method):
		p.pass(w, r)
	case !plain(r.URL):
		// The upstream may take it for a path that has a route, so that the
		// weakest guard must not count.
		strict := p.config.Defaults
		strict.Guard = Required
		p.under("default", &strict).ServeHTTP(w, r)
	default:
		p.routes.ServeHTTP(w, r)
	}
}

// safe reports whether a method asks for no effect (RFC 9110, section 9.2.1).
// Such requests are never guarded.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// plain reports whether servers agree on what a path means: it has no empty or
// dot segments, no path parameters, no backslash, and no slash, dot or
// backslash that is percent-encoded.
func plain(u *url.URL) bool {
	cleaned := path.Clean(u.Path)
	if cleaned != "/" && strings.HasSuffix(u.Path, "/") {
		cleaned += "/"
	}
	if cleaned != u.Path || strings.ContainsAny(u.Path, `\;`) {
		return false
	}
	escaped := strings.ToLower(u.EscapedPath())
	return !strings.Contains(escaped, "%2f") && !strings.Contains(escaped, "%2e")
}

// under handles the requests of one rule; the metrics name it by its path.
func (p *Proxy) under(path string, rule *Rule) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpguard.InfoOf(r.Context()).Route = path
		_, hasKey := r.Header[keyHeader]
		if rule.Guard == Off || (rule.Guard == Optional && !hasKey) {
			p.pass(w, r)
			return
		}
		p.guarded(w, r, rule)
	})
}

// pass passes a request on without a guard: streams, upgrades and trailers too.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request) {
	var sent sentWatch
	info := httpguard.InfoOf(r.Context())
	info.Outcome, info.Route = "unguarded", "unguarded"
	reverse := &httputil.ReverseProxy{
		Rewrite:   p.rewrite,
		Transport: p.transport,
		ErrorLog:  slog.NewLogLogger(p.log.Handler(), slog.LevelWarn),
		ModifyResponse: func(response *http.Response) error {
			ownRequestID(w, response)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			p.log.WarnContext(r.Context(), "upstream failed", "error", err)
			if sent.surelyNot(r.Context().Err() == nil) {
				httpguard.RetryAfter(w, time.Second)
				httpguard.WriteProblem(w, upstreamUnavailable.Problem())
				return
			}
			httpguard.WriteProblem(w, upstreamBroke.Detail("This request was not guarded: send it again only if doing it twice is harmless."))
		},
	}
	noSniffing(w.Header())
	reverse.ServeHTTP(w, r.WithContext(sent.watch(r.Context())))
}

// rewrite addresses a request to the upstream.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	pr.SetURL(p.upstream)
	out.URL.RawQuery = in.URL.RawQuery // to the byte: nothing was decided by it
	if p.config.PreserveHost {
		out.Host = in.Host
	}
	if p.config.TrustForwarded {
		out.Header["X-Forwarded-For"] = in.Header["X-Forwarded-For"]
	}
	pr.SetXForwarded()
	if p.config.TrustForwarded {
		for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
			if values, ok := in.Header[name]; ok {
				out.Header[name] = values
			}
		}
	}
	out.Header.Set("X-Request-Id", httpguard.InfoOf(in.Context()).ID)
	out.Header.Del(recoveredHeader)
	out.Header.Del(downstreamHeader)
	passKey(in.Header, out.Header)
}

// passKey passes the key on as it came, whatever the client's Connection header
// says. The name goes out in small letters: net/http takes a request with
// Idempotency-Key or X-Idempotency-Key for one that it may itself send again
// when a connection breaks, but looks for these spellings only. An upstream
// does not care, since names of headers have no case.
func passKey(in, out http.Header) {
	for _, name := range []string{keyHeader, "X-Idempotency-Key"} {
		out.Del(name)
		if values, ok := in[name]; ok {
			out[strings.ToLower(name)] = values
		}
	}
}

// ownRequestID answers with the id that the access log has, once.
func ownRequestID(w http.ResponseWriter, response *http.Response) {
	id := httpguard.InfoOf(response.Request.Context()).ID
	w.Header().Del("X-Request-Id")
	response.Header.Set("X-Request-Id", id)
}

// guarded claims the key of a request and does what the claim says.
func (p *Proxy) guarded(w http.ResponseWriter, r *http.Request, rule *Rule) {
	request, body, refused := p.read(w, r, rule)
	if refused != nil {
		httpguard.WriteProblem(w, *refused)
		return
	}
	info := httpguard.InfoOf(r.Context())
	info.Scope, info.KeyHash = request.Scope, httpguard.ShortHash(request.Key)

	// A client that hangs up must not leave a claim behind that nobody holds.
	ctx := context.WithoutCancel(r.Context())
	bounded, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	claim, err := guard.Claim(bounded, p.claims, request, rule.Lease, rule.KeyTTL)
	if err != nil {
		httpguard.FailDatabase(w, r, p.log, err)
		return
	}
	info.Outcome = string(claim.Outcome)
	p.metrics.Claim(metrics.Proxied, info.Outcome)
	if claim.Recovered {
		p.metrics.TakeOver(metrics.Proxied, metrics.Request)
	}
	if claim.Outcome != guard.Claimed {
		p.answerClaim(w, claim)
		return
	}
	x := &exchange{proxy: p, rule: rule, request: request, claim: claim, w: w, client: r.Context(), info: info}
	x.fence.Store(claim.Fence)
	defer func() { p.metrics.Ended(metrics.Proxied, info.Outcome) }() // also when the client's download breaks
	if claim.Recovered && !rule.UpstreamIdempotent {
		x.refuseInDoubt(ctx)
		return
	}
	x.run(r, body)
}

// answerClaim answers for a key that this request does not hold.
func (p *Proxy) answerClaim(w http.ResponseWriter, claim guard.Result) {
	switch claim.Outcome {
	case guard.Replay:
		replay(w, claim.Response)
	case guard.Mismatch:
		httpguard.WriteProblem(w, httpguard.KeyReused.Problem())
	default:
		httpguard.RetryAfter(w, claim.RetryAfter)
		httpguard.WriteProblem(w, httpguard.KeyInProgress.Problem())
	}
}

// read reads what a claim needs; whatever is wrong with a request is told
// before its key is claimed.
func (p *Proxy) read(w http.ResponseWriter, r *http.Request, rule *Rule) (guard.Request, []byte, *httpguard.Problem) {
	if refused := refuseStream(r); refused != nil {
		return guard.Request{}, nil, refused
	}
	key, refused := httpguard.Key(r.Header)
	if refused != nil {
		return guard.Request{}, nil, refused
	}
	scope, err := rule.scope(p.config.Service, r.Header)
	if err != nil {
		refused := scopeMissing.Detail(err.Error() + ".")
		return guard.Request{}, nil, &refused
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyWithin))
	body, refused := readBody(w, r, rule.RequestLimit)
	_ = connection.SetReadDeadline(time.Time{})
	if refused != nil {
		return guard.Request{}, nil, refused
	}
	hash := rule.fingerprint(r.URL.RawQuery, body)
	return guard.Request{Scope: scope, Key: key, Path: requestPath(r), Hash: hash}, body, nil
}

// refuseStream refuses what could never be replayed as what it is.
func refuseStream(r *http.Request) *httpguard.Problem {
	var detail string
	upgrade := r.Header.Get("Upgrade")
	switch {
	case httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade") && !strings.EqualFold(upgrade, "h2c"):
		detail = "A guarded path takes no upgrade to another protocol."
	case onlyEventStream(r.Header.Values("Accept")):
		detail = "A guarded path takes no request that accepts nothing but an event stream."
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
		detail = "A guarded path takes no gRPC call: its status comes in a trailer."
	default:
		return nil
	}
	refused := streamRefused.Detail(detail)
	return &refused
}

// onlyEventStream reports whether a client accepts server-sent events and
// nothing else. One that would also take a plain answer is served; should the
// upstream stream all the same, the stream is stored whole or not at all.
func onlyEventStream(accept []string) bool {
	streams := 0
	types := strings.Split(strings.Join(accept, ","), ",")
	for _, one := range types {
		name, _, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(name), "text/event-stream") {
			streams++
		}
	}
	return streams > 0 && streams == len(types)
}
