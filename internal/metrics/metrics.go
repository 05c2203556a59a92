// Package metrics counts what payonce does and reads from the database what
// waits, for Prometheus. docs/observability.md lists each metric and what to do
// about it.
//
// No label takes a value that a client makes up: routes, outcomes, providers
// and statuses are closed sets.
package metrics

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/payonce/payonce/internal/version"
)

// seconds are the buckets of durations: from what the guard costs to what a
// provider's deadline allows.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// Work is what a key is claimed for.
type Work string

// The kinds of work.
const (
	Order   Work = "order"
	Charge  Work = "charge"
	Refund  Work = "refund"
	Proxied Work = "proxied"
)

// By tells who took work over or asked about it.
type By string

// Who takes work over.
const (
	Request    By = "request"
	Reconciler By = "reconciler"
)

// Metrics is what one server counts.
type Metrics struct {
	registry *prometheus.Registry

	requests        *prometheus.CounterVec
	requestSeconds  *prometheus.HistogramVec
	claims          *prometheus.CounterVec
	takeovers       *prometheus.CounterVec
	attempts        *prometheus.CounterVec
	providerCalls   *prometheus.CounterVec
	providerSeconds *prometheus.HistogramVec
	notifications   *prometheus.CounterVec
	findings        *prometheus.CounterVec
	prevented       prometheus.Counter
}

// New makes metrics that also tell of the pool and of the keys in its database;
// more says what else to read there.
func New(pool *pgxpool.Pool, log *slog.Logger, more ...Reading) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "payonce_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Name: "payonce_" + name, Help: help, Buckets: seconds}, labels)
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("http_requests_total",
			"HTTP requests answered, by route template, method and status.", "route", "method", "status"),
		requestSeconds: histogram("http_request_duration_seconds",
			"Time from a request's headers to the end of its answer, by route template.", "route"),
		claims: counter("claims_total",
			"Claims of idempotency keys, by work and what SQL decided.", "work", "outcome"),
		takeovers: counter("lease_takeovers_total",
			"Claims of work whose former holder had left it in doubt, by work and who took it over.", "work", "by"),
		attempts: counter("attempts_total",
			"Claimed work that ended, by work and how it ended.", "work", "end"),
		providerCalls: counter("provider_calls_total",
			"Calls of a payment provider, by provider, operation and the class of its answer.",
			"provider", "operation", "class"),
		providerSeconds: histogram("provider_call_duration_seconds",
			"Time that a call of a payment provider took, by provider and operation.", "provider", "operation"),
		notifications: counter("webhooks_total",
			"Notifications of payment providers, by provider and result.", "provider", "result"),
		findings: counter("reconciler_findings_total",
			"Work that the reconciler asked about, by work and what it found.", "work", "finding"),
		prevented: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "payonce_double_charges_prevented_total",
			Help: "Requests that would have charged again had they been sent on to the provider.",
		}),
	}
	m.registry.MustRegister(
		m.requests, m.requestSeconds, m.claims, m.takeovers, m.attempts, m.providerCalls, m.providerSeconds,
		m.notifications, m.findings, m.prevented,
		newPoolCollector(pool), newReader(pool, log, append([]Reading{keys}, more...)),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(), buildInfo(),
	)
	return m
}

// buildInfo tells which payonce is running.
func buildInfo() prometheus.Collector {
	this := version.Get()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "payonce_build_info", Help: "1, with the version of payonce, its commit and its Go as labels.",
		ConstLabels: prometheus.Labels{"version": this.Version, "revision": this.Revision, "go_version": this.Go},
	}, func() float64 { return 1 })
}

// Handler is /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

// Gatherer gives what Handler writes.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// methods are those that have a label value of their own.
var methods = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true,
	http.MethodDelete: true, http.MethodOptions: true,
}

// Method is an HTTP method, or "other" for one that a client may have made up.
func Method(method string) string {
	if methods[method] {
		return method
	}
	return "other"
}

// Request counts an answered request. route is the template of the route, empty
// when there was none.
func (m *Metrics) Request(route, method string, status int, took time.Duration) {
	if route == "" {
		route = "none"
	}
	answered := "none" // the connection was cut instead
	if status != 0 {
		answered = strconv.Itoa(status)
	}
	m.requests.WithLabelValues(route, Method(method), answered).Inc()
	m.requestSeconds.WithLabelValues(route).Observe(took.Seconds())
}

// Claim counts what SQL decided about a key.
func (m *Metrics) Claim(work Work, outcome string) {
	m.claims.WithLabelValues(string(work), outcome).Inc()
}

// TakeOver counts work that somebody had left in doubt and that is gone on with.
func (m *Metrics) TakeOver(work Work, by By) {
	m.takeovers.WithLabelValues(string(work), string(by)).Inc()
}

// Ended counts how claimed work ended.
func (m *Metrics) Ended(work Work, end string) { m.attempts.WithLabelValues(string(work), end).Inc() }

// Found counts what a reconciler found out.
func (m *Metrics) Found(work Work, finding string) {
	m.findings.WithLabelValues(string(work), finding).Inc()
}

// Prevented counts a request that would have charged again without the guard.
func (m *Metrics) Prevented() { m.prevented.Inc() }

// ProviderCall counts a call of a provider.
func (m *Metrics) ProviderCall(provider, operation, class string, took time.Duration) {
	m.providerCalls.WithLabelValues(provider, operation, class).Inc()
	m.providerSeconds.WithLabelValues(provider, operation).Observe(took.Seconds())
}

// Notification counts a provider's notification.
func (m *Metrics) Notification(provider, result string) {
	m.notifications.WithLabelValues(provider, result).Inc()
}
