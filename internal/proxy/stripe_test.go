package proxy_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	stripe "github.com/stripe/stripe-go/v82"

	"github.com/payonce/payonce/internal/pgtest"
)

// stripeMock starts Stripe's own fake of its API, as it comes.
func stripeMock(t *testing.T) *url.URL {
	t.Helper()
	path, err := exec.CommandContext(t.Context(), "../../scripts/stripe-mock.sh").Output()
	require.NoError(t, err, "scripts/stripe-mock.sh builds stripe-mock with go install")
	command := exec.CommandContext(t.Context(), strings.TrimSpace(string(path)), "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0",
		"-strict-version-check=false")
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	command.Stderr = t.Output()
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "Listening for HTTP at address: "); ok {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return &url.URL{Scheme: "http", Host: address}
		}
	}
	require.Fail(t, "stripe-mock did not say where it listens")
	return nil
}

// chance is a seeded source that goroutines share.
type chance struct {
	mu     sync.Mutex
	source *rand.Rand
}

func (c *chance) oneIn(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.source.IntN(n) == 0
}

// counted stands between proxy and service, counts what arrives by its key and
// cuts some connections once the service has done its work.
type counted struct {
	service http.Handler
	chance  *chance
	mu      sync.Mutex
	work    map[string]int
	cuts    int
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.work[r.Header.Get("Idempotency-Key")]++
	c.mu.Unlock()
	if c.chance.oneIn(8) {
		c.service.ServeHTTP(httptest.NewRecorder(), r)
		c.mu.Lock()
		c.cuts++
		c.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	c.service.ServeHTTP(w, r)
}

// badNetwork is a TCP relay in front of the proxy that loses one connection in
// four: half of them before the request gets through, half before the answer.
func badNetwork(t *testing.T, target string, chance *chance) (address string, lost *atomic.Int64) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	lost = &atomic.Int64{}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			lose, early := chance.oneIn(4), chance.oneIn(2)
			if lose {
				lost.Add(1)
			}
			go relay(t.Context(), client, target, lose, early)
		}
	}()
	return listener.Addr().String(), lost
}

func relay(ctx context.Context, client net.Conn, target string, lose, early bool) {
	defer func() { _ = client.Close() }()
	if lose && early {
		return
	}
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() { _, _ = io.Copy(server, client) }()
	if lose {
		_, _ = server.Read(make([]byte, 1)) // the answer is there, and does not arrive
		return
	}
	_, _ = io.Copy(client, server)
}

// Stripe's client and Stripe's fake, neither changed, with the proxy between
// them, on a network that loses requests and answers: whatever the client
// repeats by itself, each piece of work is done once.
func TestStripeClientThroughTheProxy(t *testing.T) {
	t.Parallel()
	const seed = 20261207
	random := &chance{source: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // repeatable is what is wanted
	toMock := httputil.NewSingleHostReverseProxy(stripeMock(t))
	toMock.Transport = &http.Transport{} // of its own: no connection to what had the port before
	service := &counted{service: toMock, chance: random, work: map[string]int{}}
	upstream := httptest.NewServer(service)
	t.Cleanup(upstream.Close)
	s := &setup{t: t, db: pgtest.New(t)}
	s.serve(upstream.URL, "", slog.New(slog.DiscardHandler))
	address, lost := badNetwork(t, s.address, random)

	transport := &http.Transport{DisableKeepAlives: true}
	backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String("http://" + address), HTTPClient: &http.Client{Transport: transport, Timeout: patience},
		MaxNetworkRetries: stripe.Int64(8), LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
	client := stripe.NewClient("sk_test_123", stripe.WithBackends(backends))

	const requests = 60
	var done, unknown atomic.Int64
	var clients sync.WaitGroup
	for range requests {
		clients.Go(func() {
			intent, err := client.V1PaymentIntents.Create(t.Context(), &stripe.PaymentIntentCreateParams{
				Amount: stripe.Int64(1000), Currency: stripe.String("usd"),
			})
			switch {
			case err == nil && strings.HasPrefix(intent.ID, "pi_"):
				done.Add(1)
			default:
				unknown.Add(1)
			}
		})
	}
	clients.Wait()
	require.Len(t, service.work, requests, "every request has a key of its own, and all arrived")
	for key, times := range service.work {
		require.Equal(t, 1, times, "work done under key %s", key)
	}
	t.Logf("%d requests, %d connections lost before the proxy and %d behind it", requests, lost.Load(), service.cuts)
	require.Positive(t, lost.Load())
	require.Positive(t, service.cuts)
	require.EqualValues(t, requests-service.cuts, done.Load(), "what was not cut behind the proxy has its answer")
	require.EqualValues(t, service.cuts, unknown.Load(), "and what was cut there is not done again")
}
