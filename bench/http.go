package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/bench/internal/lab"
	"github.com/payonce/payonce/bench/internal/load"
	"github.com/payonce/payonce/bench/internal/report"
	"github.com/payonce/payonce/bench/internal/suite"
	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpapi"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/unguarded"
)

const (
	merchant = "bench"
	apiKey   = "sk_bench"
	// httpPool is how many connections each handler has to the database.
	httpPool = 16
	// utilisation is the offered rate as a part of what the guarded handler can
	// do at most: busy, not saturated.
	utilisation = 0.5
)

// The operations of the HTTP experiment.
const (
	opUnguarded = "unguarded, new order"
	opNewKey    = "guarded, new key"
	opReplay    = "guarded, replay"
	opConflict  = "guarded, conflict"
	opMismatch  = "guarded, mismatch"
)

// instant is a provider that takes every payment at once, in no time.
type instant struct{ psp.Provider }

func (instant) Name() string                     { return "instant" }
func (instant) Validate(psp.ChargeRequest) error { return nil }
func (instant) Charge(_ context.Context, request psp.ChargeRequest) psp.Result {
	return psp.Result{Verdict: psp.Succeeded, TradeNo: "trade-" + request.OrderID, Paid: request.Money}
}

// httpConditions are the clients and added round trips that are measured.
func httpConditions(quick bool) (clients []int, roundTrips []time.Duration) {
	if quick {
		return []int{8}, []time.Duration{0}
	}
	return []int{1, 8, 32, 128}, []time.Duration{0, 500 * time.Microsecond, time.Millisecond}
}

// measureHTTP runs the guarded and the unguarded handler side by side.
func measureHTTP(ctx context.Context, s *suite.Suite) error {
	db, err := s.Lab.Database(ctx, "bench_http")
	if err != nil {
		return err
	}
	err = db.With(ctx, func(conn *pgx.Conn) error {
		return payments.StoreAPIKey(ctx, conn, apiKey, merchant, "benchmark")
	})
	if err != nil {
		return err
	}
	clients, roundTrips := httpConditions(s.Quick)
	for _, roundTrip := range roundTrips {
		if err := measureOverWire(ctx, s, db, roundTrip, clients); err != nil {
			return err
		}
	}
	if err := chargedOnce(ctx, db); err != nil {
		return err
	}
	return httpTargets(s)
}

// chargedOnce holds what is stored against what was asked for: with the guard
// one charge, one order and one confirmation a key, and nothing under the keys
// that were only held.
func chargedOnce(ctx context.Context, db *lab.DB) error {
	return db.With(ctx, func(conn *pgx.Conn) error {
		var keys, charges, orders, confirmations int64
		err := conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM guard.idempotency_keys WHERE completed_at IS NOT NULL),
       (SELECT count(*) FROM payments.charges), (SELECT count(*) FROM payments.orders WHERE status = 'paid'),
       (SELECT count(*) FROM payments.outbox)`).Scan(&keys, &charges, &orders, &confirmations)
		if err != nil {
			return fmt.Errorf("count what was charged: %w", err)
		}
		if keys == 0 || charges != keys || orders != keys || confirmations != keys {
			return fmt.Errorf("%d keys were completed, with %d charges, %d paid orders and %d confirmations",
				keys, charges, orders, confirmations)
		}
		return nil
	})
}

func measureOverWire(ctx context.Context, s *suite.Suite, db *lab.DB, roundTrip time.Duration, clients []int) error {
	address, err := db.Address()
	if err != nil {
		return err
	}
	if roundTrip > 0 {
		wire, err := lab.StartWire(ctx, address, roundTrip)
		if err != nil {
			return err
		}
		defer func() { _ = wire.Close() }()
		address = wire.Address()
	}
	h, err := newHarness(ctx, db, address)
	if err != nil {
		return err
	}
	defer h.close()
	ping, err := pingTime(ctx, h.guarded)
	if err != nil {
		return err
	}
	s.Step("HTTP, %s of added network round trip to the database", roundTrip)
	s.Figure("http", "round trip to the database, "+roundTrip.String()+" added", ping, "µs", "median of an empty statement")
	for _, n := range clients {
		if err := h.measure(ctx, s, n, roundTrip); err != nil {
			return err
		}
	}
	return nil
}

// pingTime is the median time of an empty statement, in microseconds.
func pingTime(ctx context.Context, pool *pgxpool.Pool) (float64, error) {
	op := load.NewOp("ping", func(ctx context.Context, _ int, _ int64) error { return pool.Ping(ctx) })
	sample, err := load.Run(ctx, load.Plan{Clients: 1, For: 200 * time.Millisecond}, op)
	if err != nil {
		return 0, err
	}
	return float64(sample.Histogram.ValueAtQuantile(50)) / 1e3, nil
}

// harness is the two handlers, each with its own pool of connections, behind
// one HTTP server.
type harness struct {
	guarded, plain *pgxpool.Pool
	server         *http.Server
	client         *http.Client
	url            string
	// run tells the keys of one harness from another's.
	run int64
}

func newHarness(ctx context.Context, db *lab.DB, address string) (*harness, error) {
	h := &harness{run: time.Now().UnixNano()}
	var err error
	if h.guarded, err = db.PoolAt(ctx, address, httpPool); err != nil {
		return nil, err
	}
	if h.plain, err = db.PoolAt(ctx, address, httpPool); err != nil {
		h.guarded.Close()
		return nil, err
	}
	if err := h.serve(ctx); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *harness) serve(ctx context.Context) error {
	log := slog.New(slog.DiscardHandler)
	service, err := payments.New(h.guarded, []psp.Provider{instant{}}, payments.DefaultLimits(), log)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the handlers: %w", err)
	}
	handlers := http.NewServeMux()
	handlers.Handle("/unguarded/", unguarded.New(h.plain, instant{}))
	handlers.Handle("/", httpapi.New(service, payments.NewAPIKeys(h.guarded), log))
	h.server = &http.Server{Handler: handlers, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = h.server.Serve(listener) }()
	h.url = "http://" + listener.Addr().String()
	h.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: time.Minute}
	return nil
}

func (h *harness) close() {
	if h.server != nil {
		_ = h.server.Close()
		h.client.CloseIdleConnections()
	}
	h.guarded.Close()
	h.plain.Close()
}

// measure offers all operations at one rate, half of what the guarded handler
// managed just before with that many clients.
func (h *harness) measure(ctx context.Context, s *suite.Suite, clients int, roundTrip time.Duration) error {
	prefix := fmt.Sprintf("%d-%d-", h.run, clients)
	ops, err := h.operations(ctx, prefix)
	if err != nil {
		return err
	}
	most := load.Plan{Clients: clients, For: max(s.Seconds(0.5), 200*time.Millisecond)}
	calibration, err := load.Run(ctx, most, load.NewOp("calibration", h.newKey(prefix+"calibration-")))
	if err != nil {
		return err
	}
	condition := report.Condition{
		Experiment: "http", Clients: clients, RTT: roundTrip.String(), Offered: calibration.Rate() * utilisation,
	}
	s.Step("%d clients, %.0f requests/s offered, %.0f/s possible", clients, condition.Offered, calibration.Rate())
	return s.Compare(ctx, condition, s.Seconds(0.5), 5, ops...)
}

// operations makes the keys that the operations run into, and the operations.
func (h *harness) operations(ctx context.Context, prefix string) ([]*load.Op, error) {
	known, held := prefix+"known", prefix+"held"
	stored, err := h.post(ctx, "/v1/charges", known, body(known, 1000))
	if err != nil {
		return nil, err
	}
	if stored.status != http.StatusCreated {
		return nil, fmt.Errorf("charge the order to be replayed: answered %d: %s", stored.status, stored.body)
	}
	heldBody := body(held, 1000)
	hash := sha256.Sum256(heldBody)
	claim, err := guard.Claim(ctx, h.guarded,
		guard.Request{Scope: merchant, Key: held, Path: "POST /v1/charges", Hash: hash[:]}, time.Hour, 2*time.Hour)
	if err != nil {
		return nil, err
	}
	if claim.Outcome != guard.Claimed {
		return nil, fmt.Errorf("claim the key to be held: %s", claim.Outcome)
	}
	other := body(known, 999)
	return []*load.Op{
		load.NewOp(opUnguarded, h.unguarded(prefix+"plain-")),
		load.NewOp(opNewKey, h.newKey(prefix+"new-")),
		load.NewOp(opReplay, func(ctx context.Context, _ int, _ int64) error {
			got, err := h.post(ctx, "/v1/charges", known, body(known, 1000))
			return got.expect(err, http.StatusCreated, "true", stored.body)
		}),
		load.NewOp(opConflict, func(ctx context.Context, _ int, _ int64) error {
			got, err := h.post(ctx, "/v1/charges", held, heldBody)
			return got.expect(err, http.StatusConflict, "", nil)
		}),
		load.NewOp(opMismatch, func(ctx context.Context, _ int, _ int64) error {
			got, err := h.post(ctx, "/v1/charges", known, other)
			return got.expect(err, http.StatusUnprocessableEntity, "", nil)
		}),
	}, nil
}

func (h *harness) newKey(prefix string) load.Call {
	return func(ctx context.Context, _ int, number int64) error {
		key := fmt.Sprintf("%s%d", prefix, number)
		got, err := h.post(ctx, "/v1/charges", key, body(key, 1000))
		return got.expect(err, http.StatusCreated, "", nil)
	}
}

func (h *harness) unguarded(prefix string) load.Call {
	return func(ctx context.Context, _ int, number int64) error {
		got, err := h.post(ctx, "/unguarded/charges", "", body(fmt.Sprintf("%s%d", prefix, number), 1000))
		return got.expect(err, http.StatusCreated, "", nil)
	}
}

func body(orderID string, amount int) []byte {
	return fmt.Appendf(nil, `{"order_id":%q,"provider":"instant","amount":%d,"currency":"CNY","subject":"Tea"}`, orderID, amount)
}

// answer is a response, read to its end.
type answer struct {
	status   int
	replayed string
	body     []byte
}

// expect tells what is wrong with an answer; a nil body is not compared.
func (a answer) expect(err error, status int, replayed string, body []byte) error {
	switch {
	case err != nil:
		return err
	case a.status != status:
		return fmt.Errorf("answered %d, not %d: %s", a.status, status, a.body)
	case a.replayed != replayed:
		return fmt.Errorf("the answer's Idempotency-Replayed is %q, not %q", a.replayed, replayed)
	case body != nil && !bytes.Equal(a.body, body):
		return errors.New("the replay has other bytes than the first answer")
	}
	return nil
}

func (h *harness) post(ctx context.Context, path, key string, body []byte) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("make a request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+apiKey)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := h.client.Do(request)
	if err != nil {
		return answer{}, fmt.Errorf("send a request: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read an answer: %w", err)
	}
	return answer{status: response.StatusCode, replayed: response.Header.Get("Idempotency-Replayed"), body: read}, nil
}

func httpTargets(s *suite.Suite) error {
	condition := report.Condition{Experiment: "http", Clients: 8, RTT: time.Duration(0).String()}
	guarded, err := s.Result.Find(condition, opNewKey)
	if err != nil {
		return err
	}
	plain, err := s.Result.Find(condition, opUnguarded)
	if err != nil {
		return err
	}
	s.AtMost("the guard adds to p50, clients: 8", 500, report.Added(guarded, plain, report.P50), "µs")
	s.AtMost("the guard adds to p99, clients: 8", 2000, report.Added(guarded, plain, report.P99), "µs")
	return nil
}
