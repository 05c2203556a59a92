package console

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every text is in both languages, takes the same arguments in both, and is
// used; every text that is used is there.
func TestTexts(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, pattern := range []string{"*.go", "pages/*.html"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			if name == "texts.go" || strings.HasSuffix(name, "_test.go") {
				continue
			}
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			source.Write(content)
		}
	}
	used := map[string]bool{}
	for _, name := range regexp.MustCompile(`"([a-z_]+(?:\.[a-z_]+)?)"`).FindAllStringSubmatch(source.String(), -1) {
		used[name[1]] = true
	}
	verb := regexp.MustCompile(`%(?:\[\d\])?[sd]`)
	for name, text := range texts {
		if !strings.Contains(name, ".") {
			require.True(t, used[name], "text %s is not used", name)
		}
		for l := range languages {
			require.NotEmpty(t, text[l], name)
			require.Len(t, verb.FindAllString(text[l], -1), len(verb.FindAllString(text[english], -1)), name)
		}
	}
	for _, name := range regexp.MustCompile(`(?:\{\{-? ?t|[( ]t|text\(|fail\([^,]+,|refusal\{[^,]+,) ?"([^"]+)"`).FindAllStringSubmatch(source.String(), -1) {
		require.Contains(t, texts, name[1])
	}
}

// Each event that the journal can hold has a text, and so has each state.
func TestEveryEventHasAText(t *testing.T) {
	t.Parallel()
	written := regexp.MustCompile(`(?s)INSERT INTO payments\.journal.*?;`)
	literal := regexp.MustCompile(`'([a-z]+_[a-z_]*[a-z]|notified)'`)
	names, err := filepath.Glob("../../sql/payments/*.sql")
	require.NoError(t, err)
	found := map[string]bool{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, insert := range written.FindAllString(string(content), -1) {
			for _, event := range literal.FindAllStringSubmatch(insert, -1) {
				found[event[1]] = true
			}
		}
	}
	for _, fact := range []string{"refund_id", "trade_no", "failure_code"} {
		delete(found, fact)
	}
	for _, work := range []string{"charge", "refund"} {
		for _, status := range []string{"pending", "succeeded", "failed"} {
			found[work+"_"+status] = true
			require.Contains(t, texts, "state."+status)
		}
	}
	kinds, err := os.ReadFile("../../migrations/002_payments.sql")
	require.NoError(t, err)
	list := regexp.MustCompile(`(?s)kind        text        NOT NULL CHECK \(kind IN \((.*?)\)`).FindStringSubmatch(string(kinds))
	require.NotNil(t, list)
	for _, kind := range regexp.MustCompile(`'([a-z_]+)'`).FindAllStringSubmatch(list[1], -1) {
		found["case_"+kind[1]] = true
		require.Contains(t, texts, "state."+kind[1])
	}
	require.Greater(t, len(found), 20)
	for event := range found {
		require.Contains(t, texts, "event."+event)
	}
}

func TestPeriod(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 1500 * time.Millisecond: "2 s", 119 * time.Second: "119 s", 2 * time.Minute: "2 min",
		3 * time.Hour: "3 h", 47 * time.Hour: "47 h", 48 * time.Hour: "2 d",
	} {
		require.Equal(t, want, english.period(d))
	}
	require.Equal(t, "3 小时", chinese.period(3*time.Hour))
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	throttled, now := newThrottle(), time.Unix(1_800_000_000, 0)
	eve := netip.MustParseAddr("192.0.2.1")
	for range burst {
		require.Zero(t, throttled.attempt(eve, now))
	}
	require.Equal(t, everyGuess, throttled.attempt(eve, now))
	require.Zero(t, throttled.attempt(netip.MustParseAddr("192.0.2.2"), now), "another address")
	require.Zero(t, throttled.attempt(eve, now.Add(everyGuess)), "one more after a while")
	require.NotZero(t, throttled.attempt(eve, now.Add(everyGuess)))
	throttled.passed(eve)
	require.Zero(t, throttled.attempt(eve, now.Add(everyGuess)))

	for range burst {
		require.Zero(t, throttled.attempt(netip.MustParseAddr("2001:db8::1"), now))
	}
	require.NotZero(t, throttled.attempt(netip.MustParseAddr("2001:db8::ffff:1"), now), "of the same customer's network")
}

// However many addresses guess, the memory stays bounded, and those that are
// remembered no more share one allowance.
func TestThrottleIsBounded(t *testing.T) {
	t.Parallel()
	throttled, now := newThrottle(), time.Now()
	address := netip.MustParseAddr("10.0.0.0")
	var waited int
	for range maxThrottled + 100 {
		address = address.Next()
		for range 2 {
			if throttled.attempt(address, now) > 0 {
				waited++
			}
		}
	}
	require.LessOrEqual(t, len(throttled.byAddr), maxThrottled+1)
	require.Equal(t, 2*100-burst, waited)
}

func TestSessions(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	ours := newSessions("a password of tests")
	token, err := ours.begin("ann", now)
	require.NoError(t, err)
	found, ok := ours.read(token, now.Add(sessionLife-time.Second))
	require.True(t, ok)
	require.Equal(t, "ann", found.Name)
	_, ok = ours.read(token, now.Add(sessionLife))
	require.False(t, ok, "its life is over")
	_, ok = newSessions("another password").read(token, now)
	require.False(t, ok, "the password has changed")
	_, ok = newSessions("a password of tests").read(token, now)
	require.True(t, ok, "another server with the same password")
	payload, signature, _ := strings.Cut(token, ".")
	for _, forged := range []string{payload + "x." + signature, payload + ".", payload, "." + signature, token + "A"} {
		_, ok = ours.read(forged, now)
		require.False(t, ok, forged)
	}
	ours.end(found, now)
	_, ok = ours.read(token, now)
	require.False(t, ok, "logged out")
}
