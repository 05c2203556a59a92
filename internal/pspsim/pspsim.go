// Package pspsim simulates payment service providers over their real
// protocols: it verifies every request as strictly as they do, signs its
// answers and notifications, and keeps a ledger of the money that moved.
//
// It shares no code with the adapters: each side is written from the
// provider's documentation, so that each checks the other.
package pspsim

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Options say how the simulator behaves.
type Options struct {
	Keys *Keys
	// NotifyURL is the base address of the server that gets notifications,
	// such as http://127.0.0.1:8080; empty: none are sent by themselves.
	NotifyURL string
	// ManualBuyer leaves each trade unpaid until POST /buyer pays it.
	ManualBuyer bool
	Logger      *slog.Logger
}

// Simulator is all simulated providers with one ledger.
type Simulator struct {
	options Options
	client  *http.Client

	mu       sync.Mutex
	trades   map[tradeKey]*trade
	ledger   []Entry
	faults   []*Fault
	requests map[string]int
	number   int64

	stopped context.Context
	stop    context.CancelFunc
	pending sync.WaitGroup
}

// New makes a simulator.
func New(options Options) *Simulator {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	stopped, stop := context.WithCancel(context.Background())
	return &Simulator{
		options: options, client: &http.Client{Timeout: 10 * time.Second},
		trades: map[tradeKey]*trade{}, ledger: []Entry{}, requests: map[string]int{},
		stopped: stopped, stop: stop,
	}
}

// Close ends delayed answers and notifications that are still on their way.
func (s *Simulator) Close() {
	s.stop()
	s.pending.Wait()
}

// Handler serves the providers, each below its own path, and the control
// interface.
func (s *Simulator) Handler() http.Handler {
	mux := http.NewServeMux()
	s.control(mux)
	mux.HandleFunc("/alipay/gateway.do", s.alipayGateway)
	return mux
}

// wait waits like a slow provider, or until the simulator is closed.
func (s *Simulator) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.stopped.Done():
	}
}
