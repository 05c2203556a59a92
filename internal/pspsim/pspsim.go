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
	// such as http://127.0.0.1:8080. A request's own notify_url goes first.
	// With neither, no notification is sent.
	NotifyURL string
	// Quiet sends only the notifications that POST /notify asks for.
	Quiet bool
	// ManualBuyer leaves each trade unpaid until POST /buyer pays it.
	ManualBuyer bool
	// Unsettled leaves 2C2P's payments as they are before the acquirer's cut-off:
	// they can be voided and not yet refunded.
	Unsettled bool
	// Logger gets the notifications that nobody acknowledged; nil: no log.
	Logger *slog.Logger
}

// Simulator is all simulated providers with one ledger.
type Simulator struct {
	options   Options
	client    *http.Client
	providers map[string]provider

	mu       sync.Mutex // guards what follows, and every trade
	trades   []*trade   // oldest first
	byNumber map[tradeKey]*trade
	ledger   []Entry
	faults   []*Fault
	requests map[string]int
	number   int64

	stopped context.Context
	stop    context.CancelFunc
	pending sync.WaitGroup
}

// provider is one simulated payment service provider.
type provider interface {
	// routes adds the provider's addresses, each below the provider's own path.
	routes(mux *http.ServeMux)
	// message writes the notification of an event, or says that the provider
	// has no such notification. The caller holds the simulator's lock.
	message(t *trade, e event) (message, error)
}

// New makes a simulator.
func New(options Options) *Simulator {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	stopped, stop := context.WithCancel(context.Background())
	s := &Simulator{
		options: options, client: newNotifier(),
		byNumber: map[tradeKey]*trade{}, requests: map[string]int{},
		stopped: stopped, stop: stop,
	}
	s.providers = map[string]provider{
		alipayName: &alipayGateway{s}, wechatName: &wechatAPI{s}, stripeName: newStripe(s),
		twoctwopName: newTwoCTwoP(s),
	}
	return s
}

// Close ends delayed answers and notifications that are still on their way.
func (s *Simulator) Close() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.pending.Wait()
	s.client.CloseIdleConnections()
}

// Handler serves the providers, each below its own path, and the control
// interface.
func (s *Simulator) Handler() http.Handler {
	mux := http.NewServeMux()
	s.control(mux)
	for _, p := range s.providers {
		p.routes(mux)
	}
	return mux
}

// wait waits like a slow provider, or until the simulator is closed.
func (s *Simulator) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.stopped.Done():
	}
}
