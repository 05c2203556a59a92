package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/payonce/payonce/bench/internal/load"
	"github.com/payonce/payonce/bench/internal/report"
	"github.com/payonce/payonce/bench/internal/suite"
	"github.com/payonce/payonce/internal/proxy"
)

// The operations of the proxy experiment.
const (
	opProxyOff    = "proxy, not guarded"
	opProxyNewKey = "proxy, new key"
	opProxyReplay = "proxy, replay"
)

var proxyClients = []int{1, 8, 32}

const proxyRoutes = `
service: bench
routes:
  - {path: /off, guard: "off"}
`

func proxyCondition(clients int) report.Condition {
	return report.Condition{Experiment: "proxy", Clients: clients}
}

// measureProxy passes requests through one proxy, with and without the guard,
// to a service that answers at once.
func measureProxy(ctx context.Context, s *suite.Suite) error {
	db, err := s.Lab.Database(ctx, "bench_proxy")
	if err != nil {
		return err
	}
	address, err := db.Address()
	if err != nil {
		return err
	}
	pool, err := db.PoolAt(ctx, address, httpPool)
	if err != nil {
		return err
	}
	defer pool.Close()
	service, stopService, err := listen(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"paid":true}`)
	}))
	if err != nil {
		return err
	}
	defer stopService()
	config, err := proxy.ParseConfig([]byte(proxyRoutes))
	if err != nil {
		return err
	}
	handler, err := proxy.New(proxy.Options{
		Upstream: &url.URL{Scheme: "http", Host: service}, Config: config, Connections: proxy.DefaultConnections(),
		Pool: pool, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	front, stopFront, err := listen(ctx, handler)
	if err != nil {
		return err
	}
	defer stopFront()
	h := &harness{
		url: "http://" + front, run: time.Now().UnixNano(),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: time.Minute},
	}
	defer h.client.CloseIdleConnections()
	clients := proxyClients
	if s.Quick {
		clients = []int{8}
	}
	for _, n := range clients {
		if err := h.measureProxy(ctx, s, n); err != nil {
			return err
		}
	}
	return proxyTargets(s)
}

// listen serves a handler on a free port of loopback.
func listen(ctx context.Context, handler http.Handler) (address string, stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), func() { _ = server.Close() }, nil
}

func (h *harness) measureProxy(ctx context.Context, s *suite.Suite, clients int) error {
	prefix := fmt.Sprintf("%d-%d-", h.run, clients)
	request := body(prefix, 1000)
	stored, err := h.post(ctx, "/pay", prefix+"known", request)
	if err := stored.expect(err, http.StatusCreated, "", nil); err != nil {
		return err
	}
	newKey := func(prefix string) load.Call {
		return func(ctx context.Context, _ int, number int64) error {
			got, err := h.post(ctx, "/pay", fmt.Sprintf("%s%d", prefix, number), request)
			return got.expect(err, http.StatusCreated, "", stored.body)
		}
	}
	most := load.Plan{Clients: clients, For: max(s.Seconds(0.5), 200*time.Millisecond)}
	calibration, err := load.Run(ctx, most, load.NewOp("calibration", newKey(prefix+"calibration-")))
	if err != nil {
		return err
	}
	condition := proxyCondition(clients)
	condition.Offered = calibration.Rate() * utilisation
	s.Step("%d clients, %.0f requests/s offered, %.0f/s possible", clients, condition.Offered, calibration.Rate())
	return s.Compare(ctx, condition, s.Seconds(0.5), 5,
		load.NewOp(opProxyOff, func(ctx context.Context, _ int, _ int64) error {
			got, err := h.post(ctx, "/off", "", request)
			return got.expect(err, http.StatusCreated, "", stored.body)
		}),
		load.NewOp(opProxyNewKey, newKey(prefix+"new-")),
		load.NewOp(opProxyReplay, func(ctx context.Context, _ int, _ int64) error {
			got, err := h.post(ctx, "/pay", prefix+"known", request)
			return got.expect(err, http.StatusCreated, "true", stored.body)
		}),
	)
}

func proxyTargets(s *suite.Suite) error {
	guarded, err := s.Result.Find(proxyCondition(8), opProxyNewKey)
	if err != nil {
		return err
	}
	plain, err := s.Result.Find(proxyCondition(8), opProxyOff)
	if err != nil {
		return err
	}
	s.AtMost("the guard in the proxy adds to p50, clients: 8", 2000, report.Added(guarded, plain, report.P50), "µs")
	s.AtMost("the guard in the proxy adds to p99, clients: 8", 2000, report.Added(guarded, plain, report.P99), "µs")
	return nil
}
