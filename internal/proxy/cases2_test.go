package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var unknown = want{status: 409, code: "outcome_unknown", header: map[string]string{"Retry-After": "60"}}

// doubtCases: what comes after work in doubt, and after holders that died.
func doubtCases() map[string]conformance {
	lost := reaction{cut: true}
	firstLost := want{status: 502, code: "outcome_unknown", header: map[string]string{"Retry-After": "1"}}
	held := reaction{raw: made.raw, hold: true}
	return map[string]conformance{
		"in doubt until an operator frees the key": {
			upstream: []reaction{lost, made}, runs: 2,
			steps: []step{
				{want: firstLost}, {want: unknown}, {want: unknown}, {operator: "release"}, {want: isMade}, {want: isReplay},
			},
		},
		"in doubt until an operator tells the answer": {
			upstream: []reaction{lost}, runs: 1,
			steps: []step{
				{want: firstLost}, {want: unknown}, {operator: "complete"},
				{want: want{status: 201, body: "found out", replayed: true}},
			},
		},
		"another body for a key in doubt": {
			upstream: []reaction{lost}, runs: 1,
			steps: []step{{body: "a", want: firstLost}, {body: "b", want: reused}, {body: "a", want: unknown}},
		},
		"in doubt past the key's life": {
			upstream: []reaction{lost}, runs: 1,
			steps: []step{{want: firstLost}, {operator: "expire"}, {want: unknown}},
		},
		"an idempotent upstream is asked again": {
			upstream: []reaction{lost, lost, made}, runs: 3,
			steps: []step{
				{path: "/idempotent", want: firstLost}, {path: "/idempotent", want: firstLost},
				{path: "/idempotent", want: isMade}, {path: "/idempotent", want: isReplay},
			},
			check: func(t *testing.T, got []seen) {
				require.NotContains(t, got[0].header, "Idempotency-Recovered")
				require.Equal(t, "true", got[1].header.Get("Idempotency-Recovered"))
				require.Equal(t, "true", got[2].header.Get("Idempotency-Recovered"))
				require.Equal(t, "an idempotent upstream is asked again", got[2].header.Get("Idempotency-Key"))
				require.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, got[0].header.Get("Idempotency-Downstream-Key"))
				require.Equal(t, got[0].header["Idempotency-Downstream-Key"], got[2].header["Idempotency-Downstream-Key"])
			},
		},
		"an idempotent upstream that timed out is asked again": {
			upstream: []reaction{{hold: true}, made}, runs: 2,
			steps: []step{
				{path: "/fast/idempotent", want: want{status: 504, code: "outcome_unknown"}},
				{path: "/fast/idempotent", want: isMade}, {path: "/fast/idempotent", want: isReplay},
			},
		},
		"what is in doubt stays so when the next answer would release": {
			upstream: []reaction{lost, {raw: http11(429, "", "slow down")}, lost, made}, runs: 4,
			steps: []step{
				{path: "/idempotent", want: firstLost}, {path: "/idempotent", want: want{status: 429, body: "slow down"}},
				{path: "/idempotent", body: "other", want: reused}, {path: "/idempotent", want: firstLost},
				{path: "/idempotent", want: isMade}, {path: "/idempotent", want: isReplay},
			},
			check: func(t *testing.T, got []seen) {
				require.NotContains(t, got[0].header, "Idempotency-Recovered")
				for _, later := range got[1:] {
					require.Equal(t, "true", later.header.Get("Idempotency-Recovered"))
				}
			},
		},
		"what is in doubt stays so when a cut would release": {
			upstream: []reaction{{raw: http11(500, "", "")}, lost, made}, runs: 3,
			steps: []step{
				{path: "/ends/idempotent", want: firstLost}, {path: "/ends/idempotent", want: firstLost},
				{path: "/ends/idempotent", want: isMade},
			},
			check: func(t *testing.T, got []seen) {
				require.Equal(t, "true", got[2].header.Get("Idempotency-Recovered"))
			},
		},
		"FF-05 the holder died at work": {
			upstream: []reaction{held}, runs: 1,
			steps: []step{{background: true}, {operator: "lapse"}, {want: unknown}, {want: unknown}},
		},
		"FF-07 work longer than the lease keeps its key": {
			upstream: []reaction{held}, runs: 1,
			steps: []step{
				{path: "/short", background: true}, {operator: "outlast"},
				{path: "/short", want: want{status: 409, code: "key_in_progress"}},
				{letGo: true}, {collect: true, want: isMade}, {path: "/short", want: isReplay},
			},
		},
		"FF-07 a late holder's answer stands when nobody else worked": {
			upstream: []reaction{held}, runs: 1,
			steps: []step{
				{background: true}, {operator: "lapse"}, {want: unknown}, {letGo: true}, {collect: true, want: isMade},
				{want: isReplay},
			},
		},
		"FF-07 a late holder gets the winner's answer": {
			upstream: []reaction{{raw: another.raw, hold: true}, made}, runs: 2,
			steps: []step{
				{path: "/idempotent", background: true}, {operator: "lapse"}, {path: "/idempotent", want: isMade},
				{letGo: true}, {collect: true, want: isReplay}, {path: "/idempotent", want: isReplay},
			},
		},
		"a late holder frees nothing": {
			upstream: []reaction{{raw: http11(429, "", "slow down"), hold: true}, made}, runs: 2,
			steps: []step{
				{path: "/idempotent", background: true}, {operator: "lapse"}, {path: "/idempotent", want: isMade},
				{letGo: true}, {collect: true, want: want{status: 429, body: "slow down"}}, {path: "/idempotent", want: isReplay},
			},
		},
		"FF-20 the client hangs up, the work goes on": {
			upstream: []reaction{held}, runs: 1,
			steps: []step{
				{hangup: true}, {want: want{status: 409, code: "key_in_progress"}}, {letGo: true}, {want: isReplay},
			},
		},
		"FF-20 the client hangs up, and the upstream is cut": {
			upstream: []reaction{{cut: true, hold: true}}, runs: 1,
			steps: []step{{hangup: true}, {letGo: true}, {want: unknown}},
		},
		"two scopes have two downstream keys": {
			upstream: []reaction{made, another}, runs: 2,
			steps: []step{{header: merchant("m1"), want: isMade}, {header: merchant("m2"), want: isOther}},
			check: func(t *testing.T, got []seen) {
				require.NotEqual(t, got[0].header["Idempotency-Downstream-Key"], got[1].header["Idempotency-Downstream-Key"])
			},
		},
	}
}

// sizeCases: bodies past a limit.
func sizeCases() map[string]conformance {
	large := strings.Repeat("x", 1001)
	tomb := want{status: 409, code: "answer_not_stored", replayed: true, header: map[string]string{"Content-Type": "application/problem+json"}}
	tomb2 := tomb
	tomb2.header = map[string]string{"Location": "/small/1"}
	exact := large[:1000]
	huge := strings.Repeat("20 megabytes.\n", 20<<20/14)
	return map[string]conformance{
		"FF-18 larger than the limit": {
			upstream: []reaction{{raw: http11(201, "Location: /small/1\r\n", large)}}, runs: 1,
			steps: []step{
				{path: "/small", want: want{status: 201, body: large, header: map[string]string{"Content-Length": "1001"}}},
				{path: "/small", want: tomb2}, {path: "/small", want: tomb2},
			},
		},
		"FF-18 20 MB": {
			upstream: []reaction{{raw: http11(200, "", huge)}}, runs: 1,
			steps: []step{{want: want{status: 200, body: huge}}, {want: tomb}},
		},
		"FF-17 a stream past the limit": {
			upstream: []reaction{{raw: chunked(200, "", "", large[:500], large[500:])}}, runs: 1,
			steps: []step{{path: "/small", want: want{status: 200, body: large}}, {path: "/small", want: tomb}},
		},
		"as large as the limit": {
			upstream: []reaction{{raw: http11(200, "", exact)}}, runs: 1,
			steps: []step{
				{path: "/small", want: want{status: 200, body: exact}},
				{path: "/small", want: want{status: 200, body: exact, replayed: true}},
			},
		},
		"cut past the limit: the work was done all the same": {
			upstream: []reaction{{raw: "HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n" + huge[:100_000], cut: true}}, runs: 1,
			steps: []step{
				{path: "/small", want: want{status: 200, body: huge[:100_000], broken: true}}, {path: "/small", want: tomb},
			},
		},
		"a large answer that releases": {
			upstream: []reaction{{raw: http11(429, "", large)}, made}, runs: 2,
			steps: []step{{path: "/small", want: want{status: 429, body: large}}, {path: "/small", want: isMade}},
		},
		"a request past its limit does not use the key up": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{
				{path: "/tiny", body: "01234567890", want: want{status: 413, code: "body_too_large"}},
				{path: "/tiny", body: "0123456789", want: isMade},
			},
		},
	}
}

// protocolCases: HTTP itself.
func protocolCases() map[string]conformance {
	post := func(header, body string) step {
		return step{raw: "POST /pay HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nIdempotency-Key: KEY\r\nX-Case: KEY\r\n" + header + "\r\n" + body}
	}
	with := func(s step, w want) step {
		s.want = w
		return s
	}
	refused := func(header http.Header) conformance {
		return conformance{steps: []step{{header: header, want: want{status: 400, code: "stream_refused"}}}}
	}
	malformed := func(status int, header, body string) conformance {
		return conformance{steps: []step{with(post(header, body), want{status: status})}}
	}
	trailers := chunked(200, "Trailer: X-Sum\r\n", "X-Sum: 42\r\n", "body")
	return map[string]conformance{
		"FF-17 an upgrade to WebSocket": refused(http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}}),
		"FF-17 server-sent events":      refused(http.Header{"Accept": {"text/event-stream"}}),
		"FF-17 gRPC":                    refused(http.Header{"Content-Type": {"application/grpc+proto"}}),
		"FF-17 an event stream where a plain answer would do": {
			upstream: []reaction{{raw: chunked(200, "Content-Type: text/event-stream\r\n", "", "data: 1\n\n", "data: 2\n\n")}}, runs: 1,
			steps: []step{
				{header: http.Header{"Accept": {"application/json, text/event-stream"}}, want: want{
					status: 200, body: "data: 1\n\ndata: 2\n\n", header: map[string]string{"Content-Type": "text/event-stream"},
				}},
				{want: want{
					status: 200, body: "data: 1\n\ndata: 2\n\n", replayed: true, header: map[string]string{"Content-Type": "text/event-stream"},
				}},
			},
		},
		"an upgrade to HTTP/2 is left out": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{{header: http.Header{
				"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {"h2c"}, "Http2-Settings": {"AAMAAABkAAQAAP__"},
			}, want: isMade}},
			check: func(t *testing.T, got []seen) {
				require.NotContains(t, got[0].header, "Upgrade")
				require.NotContains(t, got[0].header, "Http2-Settings")
			},
		},
		"trailers go to the first caller": {
			upstream: []reaction{{raw: trailers}}, runs: 1,
			steps: []step{
				{want: want{status: 200, body: "body", trailer: map[string]string{"X-Sum": "42"}}},
				{want: want{status: 200, body: "body", replayed: true, absent: []string{"X-Sum", "Trailer"}}},
			},
		},
		"trailers of the request": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{with(post("Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n", "4\r\nbody\r\n0\r\nX-Sum: 42\r\n\r\n"), isMade)},
			check: func(t *testing.T, got []seen) {
				require.Equal(t, "body", got[0].body)
				require.Equal(t, "42", got[0].trailer.Get("X-Sum"))
			},
		},
		"early hints go to the first caller": {
			upstream: []reaction{{raw: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + made.raw}}, runs: 1,
			steps: []step{
				with(post("", ""), want{status: 201, body: `{"id":1}`, early: []int{103}}),
				with(post("", ""), isReplay),
			},
		},
		"Expect: 100-continue": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{
				with(post("Content-Length: 4\r\nExpect: 100-continue\r\n", "body"), want{status: 201, body: `{"id":1}`, early: []int{100}}),
				with(post("Content-Length: 4\r\nExpect: 100-continue\r\n", "body"), want{status: 201, body: `{"id":1}`, early: []int{100}, replayed: true}),
			},
			check: func(t *testing.T, got []seen) {
				require.Equal(t, "body", got[0].body)
				require.NotContains(t, got[0].header, "Expect")
			},
		},
		"Expect with a bad key is refused before the body": {
			steps: []step{{
				raw:  "POST /pay HTTP/1.1\r\nHost: shop\r\nX-Case: KEY\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
				want: want{status: 400, code: "idempotency_key_missing"},
			}},
		},
		"a request in chunks": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{
				with(post("Transfer-Encoding: chunked\r\n", "2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n"), isMade),
				with(post("Content-Length: 4\r\n", "body"), isReplay),
			},
			check: func(t *testing.T, got []seen) { require.Equal(t, "body", got[0].body) },
		},
		"a body that ends too early does not use the key up": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{
				{
					raw:  "POST /pay HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: KEY\r\nX-Case: KEY\r\nContent-Length: 8\r\n\r\nbody",
					done: true, want: want{status: 400, code: "body_malformed"},
				},
				{body: "whole", want: isMade},
			},
		},
		"smuggling: two lengths":              malformed(400, "Content-Length: 4\r\nContent-Length: 5\r\n", "body"),
		"smuggling: a length with a sign":     malformed(400, "Content-Length: +4\r\n", "body"),
		"smuggling: an unknown coding":        malformed(501, "Transfer-Encoding: xchunked\r\n", "body"),
		"smuggling: two codings":              malformed(501, "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"),
		"smuggling: a space before the colon": malformed(400, "Content-Length : 4\r\n", "body"),
		"smuggling: NUL in a header":          malformed(400, "X-A: b\x00c\r\n", ""),
		"smuggling: length and chunks": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{with(post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "4\r\nbody\r\n0\r\n\r\n"), isMade)},
			check: func(t *testing.T, got []seen) {
				require.Equal(t, "body", got[0].body)
				require.Equal(t, "4", got[0].header.Get("Content-Length"))
			},
		},
		"a client does not take the key or the guard's headers away": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{{header: http.Header{
				"Connection":            {"Idempotency-Key, Idempotency-Recovered, X-Forwarded-For, Idempotency-Downstream-Key"},
				"Idempotency-Recovered": {"true"}, "Idempotency-Downstream-Key": {"mine"},
			}, want: isMade}},
			check: func(t *testing.T, got []seen) {
				require.Equal(t, "a client does not take the key or the guard's headers away", got[0].header.Get("Idempotency-Key"))
				require.NotContains(t, got[0].header, "Idempotency-Recovered")
				require.NotEqual(t, "mine", got[0].header.Get("Idempotency-Downstream-Key"))
				require.Equal(t, "127.0.0.1", got[0].header.Get("X-Forwarded-For"))
			},
		},
		"what the upstream gets": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{{path: "/pay%20me/%E4%BB%98?a=1;b=2&c=%zz", body: "body", header: http.Header{
				"X-Forwarded-For": {"1.2.3.4"}, "X-Request-Id": {"r-1"}, "Accept-Encoding": {"br"}, "Te": {"gzip"},
			}, want: want{status: 201, header: map[string]string{"X-Request-Id": "r-1"}}}},
			check: func(t *testing.T, got []seen) {
				require.Equal(t, "/pay%20me/%E4%BB%98?a=1;b=2&c=%zz", got[0].uri)
				require.Equal(t, "body", got[0].body)
				require.Equal(t, "127.0.0.1", got[0].header.Get("X-Forwarded-For"))
				require.Equal(t, "http", got[0].header.Get("X-Forwarded-Proto"))
				require.NotEmpty(t, got[0].header.Get("X-Forwarded-Host"))
				require.Equal(t, []string{"r-1"}, got[0].header["X-Request-Id"])
				require.Equal(t, "br", got[0].header.Get("Accept-Encoding"))
				require.NotContains(t, got[0].header, "Te")
			},
		},
		"the upstream's own request id gives way": {
			upstream: []reaction{{raw: http11(200, "X-Request-Id: theirs\r\n", "ok")}}, runs: 1,
			steps: []step{{header: http.Header{"X-Request-Id": {"r-1"}}, want: want{status: 200, header: map[string]string{"X-Request-Id": "r-1"}}}},
		},
	}
}
