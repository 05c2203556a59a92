// Package httpapi is the HTTP side of payonce: it reads requests, hands them
// to package payments and maps each outcome to an answer through one table.
package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/payments"
)

// API serves the payment API.
type API struct {
	handler  http.Handler
	metrics  http.Handler
	draining atomic.Bool
	payments *payments.Service
	apiKeys  *payments.APIKeys
	log      *slog.Logger
	counters counters
}

// New makes the handler of the payment API.
func New(service *payments.Service, apiKeys *payments.APIKeys, log *slog.Logger) *API {
	api := &API{payments: service, apiKeys: apiKeys, log: log, metrics: service.Metrics().Handler(), counters: counters{since: time.Now()}}
	api.handler = httpguard.Observed(log, service.Metrics(), api.routes())
	return api
}

func (api *API) routes() *mux.Router {
	router := mux.NewRouter().SkipClean(true)
	router.HandleFunc("/v1/charges", api.postCharge).Methods(http.MethodPost)
	router.HandleFunc("/v1/charges/{id}", api.getCharge).Methods(http.MethodGet, http.MethodHead)
	router.HandleFunc("/v1/refunds", api.postRefund).Methods(http.MethodPost)
	router.HandleFunc("/v1/orders/{id}", api.getOrder).Methods(http.MethodGet, http.MethodHead)
	router.HandleFunc("/v1/orders", api.postOrder).Methods(http.MethodPost)
	router.HandleFunc("/webhooks/{provider}", api.postWebhook).Methods(http.MethodPost)
	router.HandleFunc("/healthz", api.healthz).Methods(http.MethodGet, http.MethodHead)
	router.HandleFunc("/readyz", api.readyz).Methods(http.MethodGet, http.MethodHead)
	router.HandleFunc("/openapi.yaml", api.getOpenAPI).Methods(http.MethodGet, http.MethodHead)
	router.HandleFunc("/metrics", api.getMetrics).Methods(http.MethodGet, http.MethodHead)
	router.Use(Named)
	router.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		httpguard.WriteProblem(w, httpguard.NotFound.Problem())
	})
	router.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(allowed(router, r), ", "))
		httpguard.WriteProblem(w, httpguard.MethodNotAllowed.Problem())
	})
	return router
}

// Named tells the access log and the metrics which route a request took.
func Named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if template, err := mux.CurrentRoute(r).GetPathTemplate(); err == nil {
			httpguard.InfoOf(r.Context()).Route = template
		}
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP answers one request.
func (api *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { api.handler.ServeHTTP(w, r) }

// Drain makes /readyz say no, so that no new requests are sent here; those that
// come all the same are answered.
func (api *API) Drain() { api.draining.Store(true) }

// allowed lists the methods that the request's path does take (RFC 9110 wants
// them in Allow; mux does not say).
func allowed(router *mux.Router, r *http.Request) []string {
	var methods []string
	for _, method := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	} {
		probe := r.Clone(r.Context())
		probe.Method = method
		var match mux.RouteMatch
		if router.Match(probe, &match) && match.MatchErr == nil {
			methods = append(methods, method)
		}
	}
	return methods
}

// merchant finds out who calls, or answers 401 or 503.
func (api *API) merchant(w http.ResponseWriter, r *http.Request) (string, bool) {
	scheme, apiKey, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	apiKey = strings.TrimSpace(apiKey)
	if !strings.EqualFold(scheme, "Bearer") || apiKey == "" {
		api.refuseUnauthorized(w)
		return "", false
	}
	merchant, err := api.apiKeys.Merchant(r.Context(), apiKey)
	switch {
	case errors.Is(err, payments.ErrUnknownAPIKey):
		api.refuseUnauthorized(w)
		return "", false
	case err != nil:
		api.failDatabase(w, r, err)
		return "", false
	}
	info := httpguard.InfoOf(r.Context())
	info.Scope, info.APIKey = merchant, payments.APIKeyID(apiKey)
	return merchant, true
}

// guarded reads what every guarded call needs before its body: the merchant
// and the idempotency key. It answers when one of them is not there.
func (api *API) guarded(w http.ResponseWriter, r *http.Request) (guard.Request, bool) {
	merchant, ok := api.merchant(w, r)
	if !ok {
		return guard.Request{}, false
	}
	key, refused := httpguard.Key(r.Header)
	if refused != nil {
		httpguard.WriteProblem(w, *refused)
		return guard.Request{}, false
	}
	httpguard.InfoOf(r.Context()).KeyHash = httpguard.ShortHash(key)
	return guard.Request{Scope: merchant, Key: key, Path: r.Method + " " + r.URL.Path}, true
}

func (api *API) refuseUnauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="payonce"`)
	httpguard.WriteProblem(w, unauthorized.Detail("Send Authorization: Bearer <api key>."))
}

// failDatabase fails closed: without the database there is no claim, and
// without a claim no charge.
func (api *API) failDatabase(w http.ResponseWriter, r *http.Request, err error) {
	httpguard.FailDatabase(w, r, api.log, err)
}

func (api *API) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]string{"status": "ok"})
}

func (api *API) getMetrics(w http.ResponseWriter, r *http.Request) { api.metrics.ServeHTTP(w, r) }

func (api *API) readyz(w http.ResponseWriter, r *http.Request) {
	if api.draining.Load() {
		httpguard.RetryAfter(w, time.Second)
		httpguard.WriteProblem(w, httpguard.Stopping.Problem())
		return
	}
	if err := api.payments.Ready(r.Context()); err != nil {
		api.failDatabase(w, r, err)
		return
	}
	writeJSON(w, map[string]string{"status": "ready"})
}
