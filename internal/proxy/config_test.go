package proxy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/proxy"
)

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "{}"} {
		config, err := proxy.ParseConfig([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, proxy.DefaultConfig(), config, text)
	}
}

// A route begins as a copy of the defaults, and changes only itself.
func TestRoutesInherit(t *testing.T) {
	t.Parallel()
	config, err := proxy.ParseConfig([]byte(`
defaults:
  key_ttl: 48h
  ends: {"500": in_doubt}
  store_headers: [x-cost]
routes:
  - {path: /a, lease: 2m, ends: {"404": release}, store_headers: [x-name]}
  - {path: /b, methods: [patch, Post]}
`))
	require.NoError(t, err)
	a, b := config.Routes[0], config.Routes[1]
	require.Equal(t, 2*time.Minute, a.Lease)
	require.Equal(t, 48*time.Hour, a.KeyTTL)
	require.Equal(t, map[string]proxy.Meaning{"500": proxy.InDoubt, "404": proxy.Release}, a.Ends)
	require.Equal(t, []string{"X-Name"}, a.StoreHeaders)
	require.Equal(t, time.Minute, b.Lease)
	require.Equal(t, map[string]proxy.Meaning{"500": proxy.InDoubt}, b.Ends)
	require.Equal(t, []string{"X-Cost"}, b.StoreHeaders)
	require.Equal(t, []string{"PATCH", "POST"}, b.Methods)
	require.Equal(t, proxy.Required, b.Guard)
	require.Equal(t, map[string]proxy.Meaning{"500": proxy.InDoubt}, config.Defaults.Ends)
}

// Each mistake is told with where it stands.
func TestConfigMistakes(t *testing.T) {
	t.Parallel()
	for text, told := range map[string]string{
		"routs: []":                                                     "line 1: field routs not found",
		"routes:\n  - {path: /a, leese: 1s}":                            "line 2: field leese not found",
		"a: [":                                                          "line 1: did not find",
		"{}\n---\n{}":                                                   "more than one YAML document",
		"service: a/b":                                                  "service must have 1 to 64",
		"service: ''":                                                   "service must have 1 to 64",
		"defaults: {guard: maybe}":                                      `line 1: guard must be one of [required optional off], not "maybe"`,
		"defaults: {fingerprint: md5}":                                  "line 1: fingerprint must be one of",
		"defaults: {scope: header}":                                     "line 1: scope must be header:NAME",
		"defaults: {scope: 'header:a b'}":                               "line 1: scope must be header:NAME",
		"defaults: {scope: 'fixed:'}":                                   "line 1: scope must be header:NAME",
		"defaults: {lease: 1ms}":                                        "line 1: defaults: lease must be from 1s",
		"defaults: {lease: 25h}":                                        "line 1: defaults: lease must be from 1s",
		"defaults: {key_ttl: 1s}":                                       "key_ttl must be at least the lease",
		"defaults: {timeout: 0s}":                                       "timeout must be above 0",
		"defaults: {timeout: soon}":                                     "cannot unmarshal",
		"defaults: {answer_limit: -1}":                                  "answer_limit must be 0 to",
		"defaults: {request_limit: 999999999999}":                       "request_limit must be 0 to",
		"defaults: {fingerprint: fields}":                               "belong together",
		"defaults: {fingerprint_fields: [/a]}":                          "belong together",
		"routes:\n  - {path: a}":                                        "line 2: route a: path must begin with /",
		"routes:\n  - {guard: off}":                                     "path must begin with /",
		"routes:\n  - {path: '/{a'}":                                    "path: ",
		"routes:\n  - {path: /a, methods: ['a b']}":                     `methods: "a b" is no method`,
		"defaults: {store_headers: [set-cookie]}":                       `store_headers: "set-cookie" cannot be replayed`,
		"defaults: {store_headers: ['a b']}":                            `store_headers: "a b" cannot be replayed`,
		"defaults: {ends: {'600': store}}":                              `ends: "600" is no status`,
		"defaults: {ends: {'1xx': store}}":                              `ends: "1xx" is no status`,
		"defaults: {ends: {cut: store}}":                                "nothing to store for cut",
		"defaults: {ends: {timeout: store}}":                            "nothing to store for timeout",
		"defaults: {ends: {'not sent': in_doubt}}":                      `ends: "not sent" is no status`,
		"defaults: {ends: {'500': keep}}":                               "line 1: an end must be one of [store release in_doubt]",
		"routes:\n  - path: /a\n    ends: {cut: no}":                    "line 3: an end must be one of",
		"defaults: {fingerprint: fields, fingerprint_fields: [amount]}": `fingerprint_fields: "amount" is no JSON pointer`,
	} {
		_, err := proxy.ParseConfig([]byte(text))
		require.ErrorContains(t, err, told, text)
		require.ErrorContains(t, err, "read the routes file", text)
	}
}
