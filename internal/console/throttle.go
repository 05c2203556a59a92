package console

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// burst is how many passwords one address may try in a row.
	burst = 5
	// everyGuess is how long it then waits for each further one.
	everyGuess = 10 * time.Second
	// maxThrottled bounds the memory: beyond it the remaining addresses share
	// one allowance.
	maxThrottled = 10_000
)

// throttle slows down whoever guesses passwords.
type throttle struct {
	mu     sync.Mutex
	byAddr map[netip.Prefix]*rate.Limiter
}

func newThrottle() *throttle { return &throttle{byAddr: map[netip.Prefix]*rate.Limiter{}} }

// attempt counts one attempt and returns how long the address has to wait for
// it; 0: it may try.
func (t *throttle) attempt(from netip.Addr, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := t.named(from)
	limiter, ok := t.byAddr[name]
	if !ok {
		limiter = rate.NewLimiter(rate.Every(everyGuess), burst)
		t.byAddr[name] = limiter
	}
	if limiter.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - limiter.TokensAt(now)) * float64(everyGuess))
}

// passed forgets the attempts of an address that knew the password.
func (t *throttle) passed(from netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byAddr, t.named(from))
}

// named is what an address is remembered by: the network of an IPv6 customer,
// or nothing once too many are remembered. The caller holds the lock.
func (t *throttle) named(from netip.Addr) netip.Prefix {
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	prefix, err := from.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	if _, known := t.byAddr[prefix]; known || len(t.byAddr) < maxThrottled {
		return prefix
	}
	for name, limiter := range t.byAddr {
		if limiter.Tokens() >= burst {
			delete(t.byAddr, name)
		}
	}
	if len(t.byAddr) < maxThrottled {
		return prefix
	}
	return netip.Prefix{}
}
