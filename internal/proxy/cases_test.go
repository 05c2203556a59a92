package proxy_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	made     = reaction{raw: http11(201, "Content-Type: application/json\r\n", `{"id":1}`)}
	another  = reaction{raw: http11(201, "Content-Type: application/json\r\n", `{"id":2}`)}
	isMade   = want{status: 201, body: `{"id":1}`}
	isReplay = want{status: 201, body: `{"id":1}`, replayed: true}
	isOther  = want{status: 201, body: `{"id":2}`}
	reused   = want{status: 422, code: "key_reused"}
)

func sentKey(values ...string) http.Header { return http.Header{"Idempotency-Key": values} }

// keyCases: who has to send a key, and what one is.
func keyCases() map[string]conformance {
	refused := func(code string, header http.Header) conformance {
		return conformance{steps: []step{{header: header, want: want{status: 400, code: code}}}}
	}
	ok := reaction{raw: http11(200, "", "ok")}
	passed := want{status: 200, body: "ok"}
	return map[string]conformance{
		"claimed, then replayed": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{{body: "a", want: isMade}, {body: "a", want: isReplay}, {body: "a", want: isReplay}},
		},
		"key missing":        refused("idempotency_key_missing", sentKey()),
		"key twice":          refused("idempotency_key_repeated", sentKey("a", "b")),
		"key empty":          refused("idempotency_key_invalid", sentKey("")),
		"key too long":       refused("idempotency_key_invalid", sentKey(strings.Repeat("k", 256))),
		"key not ASCII":      refused("idempotency_key_invalid", sentKey("schl\xc3\xbcssel")),
		"key that is a list": refused("idempotency_key_invalid", sentKey(`"a", "b"`)),
		"quoted key is the same key": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{{want: isMade}, {header: sentKey(`"quoted key is the same key"`), want: isReplay}},
		},
		"optional without a key": {
			upstream: []reaction{ok, ok}, runs: 2,
			steps: []step{{path: "/optional", header: sentKey(), want: passed}, {path: "/optional", header: sentKey(), want: passed}},
		},
		"optional with a key": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{{path: "/optional", want: isMade}, {path: "/optional", want: isReplay}},
		},
		"optional with a bad key": {
			steps: []step{{path: "/optional", header: sentKey(""), want: want{status: 400, code: "idempotency_key_invalid"}}},
		},
		"off ignores the key": {
			upstream: []reaction{ok, ok}, runs: 2,
			steps: []step{{path: "/off", want: passed}, {path: "/off", want: passed}},
		},
		"another method than the route's falls to the defaults": {
			upstream: []reaction{ok, made}, runs: 2,
			steps: []step{
				{path: "/post-only", want: passed},
				{method: http.MethodDelete, path: "/post-only", want: isMade},
				{method: http.MethodDelete, path: "/post-only", want: isReplay},
			},
		},
		"FF-12 GET and HEAD with a key are never guarded": {
			upstream: []reaction{ok, ok, {raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"}}, runs: 3,
			steps: []step{
				{method: http.MethodGet, want: passed}, {method: http.MethodGet, want: passed},
				{method: http.MethodHead, want: want{status: 200, body: none, header: map[string]string{"Content-Length": "2"}}},
			},
		},
		"FF-12 OPTIONS with a key is never guarded": {
			upstream: []reaction{ok, ok}, runs: 2,
			steps: []step{{method: http.MethodOptions, want: passed}, {method: http.MethodOptions, want: passed}},
		},
		"FF-12 one key on two paths": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{{want: isMade}, {path: "/refunds", want: reused}},
		},
		"FF-12 one key with two methods": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{{want: isMade}, {method: http.MethodPut, want: reused}},
		},
		"a path that servers read differently is guarded": {
			steps: []step{
				{path: "/off/", header: sentKey(), want: want{status: 400, code: "idempotency_key_missing"}},
				{path: "//off", header: sentKey(), want: want{status: 400, code: "idempotency_key_missing"}},
				{path: "/x/..%2foff", header: sentKey(), want: want{status: 400, code: "idempotency_key_missing"}},
				{path: "/off;x=1", header: sentKey(), want: want{status: 400, code: "idempotency_key_missing"}},
			},
		},
		"a percent-encoded letter is the letter": {
			upstream: []reaction{ok}, runs: 1,
			steps: []step{{path: "/%6fff", want: passed}},
		},
		"conflict while the work runs": {
			upstream: []reaction{{raw: made.raw, hold: true}}, runs: 1,
			steps: []step{
				{body: "a", background: true},
				{body: "a", want: want{status: 409, code: "key_in_progress", header: map[string]string{"Retry-After": "1"}}},
				{body: "b", want: reused},
				{letGo: true}, {collect: true, want: isMade}, {body: "a", want: isReplay},
			},
		},
		"a key past its life is claimed anew, with any body": {
			upstream: []reaction{made, another}, runs: 2,
			steps: []step{{body: "a", want: isMade}, {operator: "expire"}, {body: "b", want: isOther}},
		},
	}
}

func merchant(name string) http.Header { return http.Header{"X-Merchant": {name}} }

// token makes an unsigned JWT: the gateway has verified it.
func token(claims string) http.Header {
	encode := base64.RawURLEncoding.EncodeToString
	return http.Header{"X-Verified": {encode([]byte(`{"alg":"HS256"}`)) + "." + encode([]byte(claims)) + ".c2ln"}}
}

// scopeCases: whose key it is.
func scopeCases() map[string]conformance {
	missing := want{status: 400, code: "scope_missing"}
	return map[string]conformance{
		"two merchants, one key": {
			upstream: []reaction{made, another}, runs: 2,
			steps: []step{
				{header: merchant("m1"), want: isMade}, {header: merchant("m2"), want: isOther},
				{header: merchant("m1"), want: isReplay},
			},
		},
		"a request without a merchant has a scope of its own": {
			upstream: []reaction{made, another}, runs: 2,
			steps: []step{{want: isMade}, {header: merchant("m1"), want: isOther}, {want: isReplay}},
		},
		"a merchant is needed": {
			steps: []step{
				{path: "/known", want: missing}, {path: "/known", header: merchant(""), want: missing},
				{path: "/known", header: http.Header{"X-Merchant": {"m1", "m2"}}, want: missing},
			},
		},
		"the subject of a verified JWT": {
			upstream: []reaction{made, another, another}, runs: 3,
			steps: []step{
				{path: "/jwt", header: token(`{"sub":"ann","iat":1}`), want: isMade},
				{path: "/jwt", header: token(`{"sub":"ann","iat":2}`), want: isReplay},
				{path: "/jwt", header: token(`{"sub":"bob"}`), want: isOther},
				{path: "/jwt", header: token(`{"sub":"ann","iss":"elsewhere"}`), want: isOther},
			},
		},
		"a JWT without a subject, or none": {
			steps: []step{
				{path: "/jwt", header: token(`{"iss":"x"}`), want: missing},
				{path: "/jwt", header: http.Header{"X-Verified": {"secret"}}, want: missing},
				{path: "/jwt", want: missing},
			},
		},
		"a fixed scope": {
			upstream: []reaction{made}, runs: 1,
			steps: []step{
				{path: "/fixed", header: merchant("m1"), want: isMade}, {path: "/fixed", header: merchant("m2"), want: isReplay},
			},
		},
	}
}

// fingerprintCases: what the same request is.
func fingerprintCases() map[string]conformance {
	same := func(path, first, second string) conformance {
		return conformance{
			upstream: []reaction{made}, runs: 1,
			steps: []step{{path: path, body: first, want: isMade}, {path: path, body: second, want: isReplay}},
		}
	}
	differs := func(path, first, second string) conformance {
		return conformance{
			upstream: []reaction{made}, runs: 1,
			steps: []step{{path: path, body: first, want: isMade}, {path: path, body: second, want: reused}},
		}
	}
	read := differs("/pay", `{"amount":100}`, `{"amount":200}`)
	read.check = func(t *testing.T, got []seen) { require.Equal(t, `{"amount":100}`, got[0].body) }
	query := differs("/pay?a=1", "", "")
	query.steps[1].path = "/pay?a=2"
	return map[string]conformance{
		"FF-13 another amount, and the upstream reads the whole body": read,
		"another query":                                    query,
		"FF-14 raw: order of members counts":               differs("/pay", `{"a":1,"b":2}`, `{"b":2,"a":1}`),
		"FF-14 raw: spaces count":                          differs("/pay", `{"a":1}`, `{"a": 1}`),
		"FF-14 canonical: order and spaces do not count":   same("/json", `{"a":1,"b":[1.50,"x"]}`, " {\"b\": [1.5, \"\\u0078\"],\n\"a\":1e0} "),
		"FF-14 canonical: values count":                    differs("/json", `{"a":1}`, `{"a":2}`),
		"FF-14 canonical: order in arrays counts":          differs("/json", `[1,2]`, `[2,1]`),
		"FF-14 canonical: numbers that a reader rounds":    differs("/json", `{"a":9007199254740993}`, `{"a":9007199254740992}`),
		"FF-14 canonical: fractions that a reader rounds":  differs("/json", `{"a":0.1000000000000000055}`, `{"a":0.1}`),
		"FF-14 canonical: a name that stands twice":        differs("/json", `{"a":1,"a":2}`, `{"a":2}`),
		"FF-14 canonical: what is not JSON counts by byte": differs("/json", `amount=1`, `amount= 1`),
		"FF-14 canonical: text that is not UTF-8":          differs("/json", "{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}"),
		"FF-14 canonical: halves of surrogate pairs":       differs("/json", `{"a":"\ud800"}`, `{"a":"\ud801"}`),
		"FF-14 canonical: too deep counts by byte":         differs("/json", strings.Repeat("[", 100_000), strings.Repeat("[", 100_001)),
		"fields: others do not count":                      same("/fields", `{"amount":1,"to":{"account":"x"},"at":"9:00"}`, `{"at":"9:01","to":{"account":"x"},"amount":1.0}`),
		"fields: the chosen count":                         differs("/fields", `{"amount":1,"to":{"account":"x"}}`, `{"amount":1,"to":{"account":"y"}}`),
		"fields: missing is not null":                      differs("/fields", `{"amount":1}`, `{"amount":1,"to":{"account":null}}`),
		"fields: what is not JSON counts by byte":          differs("/fields", `amount=1`, `amount=2`),
	}
}

func gzipped(text string) string {
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	_, _ = writer.Write([]byte(text))
	_ = writer.Close()
	return buffer.String()
}

// replayCases: what is stored, and comes again.
func replayCases() map[string]conformance {
	var all strings.Builder
	for b := range 256 {
		all.WriteByte(byte(b))
	}
	again := func(path, raw string, first want) conformance {
		second := first
		second.replayed = true
		return conformance{
			upstream: []reaction{{raw: raw}}, runs: 1,
			steps: []step{{path: path, want: first}, {path: path, want: second}},
		}
	}
	zipped := gzipped(`{"id":1}`)
	// HTTP/1.0, since net/http forgets the other names in a Connection header that says close.
	headers := again("/pay", "HTTP/1.0 201 Created\r\nLocation: /pay/1\r\nETag: \"v1\"\r\nLink: </a>; rel=next\r\n"+
		"Link: </b>; rel=prev\r\nContent-Type: application/json\r\nDate: Mon, 01 Jan 2001 00:00:00 GMT\r\n"+
		"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Cost: 3\r\nKeep-Alive: timeout=5\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"+
		"Content-Length: 2\r\n\r\n{}",
		want{status: 201, body: "{}", header: map[string]string{
			"Location": "/pay/1", "Etag": `"v1"`, "Link": "</a>; rel=next, </b>; rel=prev", "Content-Type": "application/json",
		}, absent: []string{"Keep-Alive", "X-Hop"}})
	headers.steps[0].want.header = map[string]string{
		"Set-Cookie": "a=1, b=2", "X-Cost": "3", "Location": "/pay/1", "Date": "Mon, 01 Jan 2001 00:00:00 GMT",
	}
	headers.steps[1].want.absent = []string{"Set-Cookie", "X-Cost", "Keep-Alive", "X-Hop"}
	return map[string]conformance{
		"FF-15 headers": headers,
		"FF-15 configured headers": again("/headers", http11(200, "X-Cost: 3\r\nCache-Control: private\r\n", "ok"),
			want{status: 200, body: "ok", header: map[string]string{"X-Cost": "3", "Cache-Control": "private"}}),
		"FF-15 a header that is not UTF-8": again("/headers", http11(200, "X-Cost: caf\xe9 \xe2\x82\xac\r\n", "ok"),
			want{status: 200, header: map[string]string{"X-Cost": "caf\xe9 \xe2\x82\xac"}}),
		"FF-16 all 256 byte values": again("/pay", http11(200, "Content-Type: application/octet-stream\r\n", all.String()),
			want{status: 200, body: all.String()}),
		"FF-16 gzip": again("/pay", http11(200, "Content-Encoding: gzip\r\nContent-Type: application/json\r\n", zipped),
			want{status: 200, body: zipped, header: map[string]string{"Content-Encoding": "gzip"}}),
		"FF-16 empty 204": again("/pay", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", want{status: 204, body: none, absent: []string{"Content-Type"}}),
		"FF-16 empty 202": again("/pay", http11(202, "", ""), want{status: 202, body: none, absent: []string{"Content-Type"}}),
		"FF-16 not UTF-8": again("/pay", http11(200, "Content-Type: text/plain; charset=gbk\r\n", "\xd6\xa7\xb8\xb6"),
			want{status: 200, body: "\xd6\xa7\xb8\xb6", header: map[string]string{"Content-Type": "text/plain; charset=gbk"}}),
		"FF-16 no Content-Type is not guessed": again("/pay", http11(200, "", "<html>"),
			want{status: 200, body: "<html>", absent: []string{"Content-Type"}}),
		"FF-32 JSON with large numbers and names twice": again("/pay",
			http11(200, "Content-Type: application/json\r\n", `{"z":12345678901234567890.10,"a":1,"a":2}`),
			want{status: 200, body: `{"z":12345678901234567890.10,"a":1,"a":2}`}),
		"an answer in chunks": again("/pay", chunked(200, "", "", "one", "two"), want{status: 200, body: "onetwo"}),
		"an answer without a length": {
			upstream: []reaction{{raw: "HTTP/1.1 200 OK\r\n\r\nto the end", cut: true}}, runs: 1,
			steps: []step{{want: want{status: 200, body: "to the end"}}, {want: want{status: 200, body: "to the end", replayed: true}}},
		},
	}
}

// endCases: what an end of the upstream's work means.
func endCases() map[string]conformance {
	kept := func(path string, status int, header string) conformance {
		raw := http11(status, header, "as it is")
		return conformance{
			upstream: []reaction{{raw: raw}}, runs: 1,
			steps: []step{
				{path: path, want: want{status: status, body: "as it is"}},
				{path: path, want: want{status: status, body: "as it is", replayed: true}},
			},
		}
	}
	released := func(path string, first reaction, answer want) conformance {
		return conformance{
			upstream: []reaction{first, made}, runs: 2,
			steps: []step{{path: path, want: answer}, {path: path, want: isMade}, {path: path, want: isReplay}},
		}
	}
	doubt := func(path string, first reaction, status int) conformance {
		first.hold = first.raw == "" && !first.cut && !first.reset
		return conformance{
			upstream: []reaction{first}, runs: 1,
			steps: []step{
				{path: path, want: want{status: status, code: "outcome_unknown"}},
				{path: path, want: want{status: 409, code: "outcome_unknown"}},
				{path: path, want: want{status: 409, code: "outcome_unknown"}},
			},
		}
	}
	status := func(status int) reaction { return reaction{raw: http11(status, "", "as it is")} }
	later := reaction{raw: http11(503, "Retry-After: 7\r\n", "busy")}
	silent := reaction{hold: true}
	cases := map[string]conformance{
		"429 releases":                  released("/pay", reaction{raw: http11(429, "Retry-After: 7\r\n", "slow down")}, want{status: 429, body: "slow down", header: map[string]string{"Retry-After": "7"}}),
		"503 with Retry-After releases": released("/pay", later, want{status: 503, body: "busy", header: map[string]string{"Retry-After": "7"}}),
		"408":                           doubt("/pay", status(408), 502),
		"425 releases":                  released("/pay", status(425), want{status: 425, body: "as it is"}),
		"503 without Retry-After":       doubt("/pay", status(503), 502),
		"502":                           doubt("/pay", status(502), 502),
		"504":                           doubt("/pay", status(504), 504),
		"599":                           doubt("/pay", status(599), 502),
		"a status that is none":         doubt("/pay", status(999), 502),
		"cut without an answer":         doubt("/pay", reaction{cut: true}, 502),
		"reset without an answer":       doubt("/pay", reaction{reset: true}, 502),
		"cut in the header":             doubt("/pay", reaction{raw: "HTTP/1.1 200 OK\r\nContent-Le", cut: true}, 502),
		"cut in the body":               doubt("/pay", reaction{raw: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", cut: true}, 502),
		"cut in a chunk":                doubt("/pay", reaction{raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf", cut: true}, 502),
		"what is not HTTP":              doubt("/pay", reaction{raw: "SSH-2.0-x\r\n\r\n", cut: true}, 502),
		"an answer to an upgrade that nobody asked for": doubt("/pay", reaction{raw: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"}, 502),
		"timeout":                        doubt("/fast", silent, 504),
		"timeout in the body":            doubt("/fast", reaction{raw: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"}, 504),
		"configured: 500 in doubt":       doubt("/ends", status(500), 502),
		"configured: 4xx releases":       released("/ends", status(402), want{status: 402, body: "as it is"}),
		"configured: 404 is stored":      kept("/ends", 404, ""),
		"configured: 503 is stored":      kept("/ends", 503, "Retry-After: 1\r\n"),
		"configured: a cut releases":     released("/ends", reaction{cut: true}, want{status: 503, code: "upstream_unavailable"}),
		"configured: a timeout releases": released("/ends", silent, want{status: 503, code: "upstream_unavailable"}),
	}
	for _, status := range []int{200, 302, 400, 401, 402, 404, 409, 422, 500} {
		cases[fmt.Sprintf("%d is stored", status)] = kept("/pay", status, "Location: /x\r\n")
	}
	return cases
}
