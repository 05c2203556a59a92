package proxy_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// step is one thing that happens in a case: a request unless operator or letGo
// is set. The method is POST, the path /pay, the key the case's name.
type step struct {
	method, path, body string
	// header is sent besides; "Idempotency-Key" with no value sends no key.
	header http.Header
	// raw is sent to the socket instead; KEY in it stands for the case's name.
	raw string
	// done: after raw, the client sends no more.
	done bool

	// background: the answer is looked at in the step that has collect.
	background, collect bool
	// hangup: the client goes away when the upstream has the request.
	hangup bool
	// letGo lets the upstream go on.
	letGo bool
	// operator does something to the key.
	operator string

	want want
}

// want is what has to come of a step.
type want struct {
	status int
	// code of the problem
	code string
	// body, unless it is empty; none stands for the empty body.
	body     string
	replayed bool
	header   map[string]string
	absent   []string
	trailer  map[string]string
	early    []int
	broken   bool
}

const none = "\x00none"

// conformance is one case.
type conformance struct {
	upstream []reaction
	steps    []step
	// runs is how often the upstream must have got a request.
	runs int
	// check looks at what the upstream got.
	check func(t *testing.T, got []seen)
}

func (s *setup) run(t *testing.T, name string, c conformance) {
	t.Helper()
	s.upstream.plan(name, c.upstream)
	defer s.upstream.letGo(name)
	pending := make(chan answer, 1)
	for number, step := range c.steps {
		switch {
		case step.letGo:
			s.upstream.letGo(name)
			continue
		case step.operator != "":
			s.operate(name, step.operator)
			continue
		case step.collect:
			select {
			case got := <-pending:
				step.want.check(t, number, got)
			case <-time.After(patience):
				t.Fatalf("step %d: no answer", number)
			}
			continue
		case step.background, step.hangup:
			ctx, cancel := context.WithCancel(t.Context())
			arrived := s.upstream.arrived(name)
			for len(arrived) > 0 {
				<-arrived
			}
			go func() {
				got, _ := s.perform(ctx, name, step)
				pending <- got
			}()
			select {
			case <-arrived:
			case <-time.After(patience):
				t.Fatalf("step %d: the upstream got no request", number)
			}
			if step.hangup {
				cancel()
				<-pending
			}
			t.Cleanup(cancel)
			continue
		}
		got, err := s.perform(t.Context(), name, step)
		require.NoError(t, err, "step %d", number)
		// What is still running is asked again, as clients do, unless that is wanted.
		for until := time.Now().Add(patience); got.code() == "key_in_progress" && step.want.code != "key_in_progress" &&
			time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			got, err = s.perform(t.Context(), name, step)
			require.NoError(t, err, "step %d", number)
		}
		step.want.check(t, number, got)
	}
	got := s.upstream.requests(name)
	require.Len(t, got, c.runs, "requests at the upstream")
	if c.check != nil {
		c.check(t, got)
	}
}

func (u *upstream) arrived(name string) chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.arrive[name]
}

func (s *setup) perform(ctx context.Context, name string, step step) (answer, error) {
	if step.raw != "" {
		text := strings.ReplaceAll(step.raw, "KEY", name)
		method, _, _ := strings.Cut(text, " ")
		return s.rawRequest(ctx, text, method, step.done)
	}
	method, path := step.method, step.path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = "/pay"
	}
	header := http.Header{"Idempotency-Key": {name}}
	for key, values := range step.header {
		header[key] = values
	}
	if len(header["Idempotency-Key"]) == 0 {
		delete(header, "Idempotency-Key")
	}
	return s.send(ctx, name, method, path, step.body, header)
}

func (w want) check(t *testing.T, number int, got answer) {
	t.Helper()
	require.Equal(t, w.status, got.status, "status of step %d: %.300q", number, got.body)
	require.Equal(t, w.code, got.code(), "code of step %d", number)
	require.Equal(t, w.broken, got.broken, "cut in step %d", number)
	switch w.body {
	case "":
	case none:
		require.Empty(t, got.body, "body of step %d", number)
	default:
		require.True(t, w.body == got.body, "body of step %d: %.200q, not %.200q", number, got.body, w.body)
	}
	if w.replayed {
		require.Equal(t, "true", got.header.Get("Idempotency-Replayed"), "step %d", number)
	} else {
		require.NotContains(t, got.header, "Idempotency-Replayed", "step %d", number)
	}
	for name, value := range w.header {
		require.Equal(t, value, strings.Join(got.header.Values(name), ", "), "%s in step %d", name, number)
	}
	for _, name := range w.absent {
		require.NotContains(t, got.header, name, "step %d", number)
	}
	for name, value := range w.trailer {
		require.Equal(t, value, got.trailer.Get(name), "trailer %s in step %d", name, number)
	}
	require.Equal(t, w.early, got.early, "informational answers of step %d", number)
	require.LessOrEqual(t, len(got.header.Values("X-Request-Id")), 1, "step %d", number)
}

const routes = `
service: shop
defaults:
  scope: header:X-Merchant
  timeout: 15s
routes:
  - {path: /optional, guard: optional}
  - {path: /off, guard: off}
  - {path: /post-only, methods: [post], guard: off}
  - {path: /json, fingerprint: json}
  - {path: /fields, fingerprint: fields, fingerprint_fields: [/amount, /to/account]}
  - {path: /fast, timeout: 300ms}
  - {path: /fast/idempotent, timeout: 300ms, upstream_idempotent: true}
  - {path: /idempotent, upstream_idempotent: true}
  - {path: /small, answer_limit: 1000}
  - {path: /tiny, request_limit: 10}
  - {path: /known, anonymous: false}
  - {path: /jwt, anonymous: false, scope: "jwt:X-Verified"}
  - {path: /fixed, scope: "fixed:all"}
  - {path: /headers, store_headers: [x-cost, Cache-Control]}
  - {path: /short, lease: 1s}
  - {path: /ends/idempotent, upstream_idempotent: true, ends: {"500": in_doubt, cut: release}}
  - path: /ends
    timeout: 300ms
    ends: {"500": in_doubt, 4xx: release, "404": store, "503": store, cut: release, timeout: release}
`

// With traces, which the program of TestCommand has none of: neither
// changes what passes through.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := newService(t)
	traced(t, s)
	s.serve(s.upstream.server.URL, routes, slog.New(slog.DiscardHandler))
	s.conform(t)
}

func (s *setup) conform(t *testing.T) {
	t.Helper()
	for _, cases := range []map[string]conformance{
		keyCases(), scopeCases(), fingerprintCases(), replayCases(), endCases(), doubtCases(), sizeCases(), protocolCases(),
	} {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s.run(t, name, c)
			})
		}
	}
}
