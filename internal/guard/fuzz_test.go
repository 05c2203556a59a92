package guard_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
)

// notText is PostgreSQL's character_not_in_repertoire: a NUL, or no UTF-8.
const notText = "22021"

// FuzzClaim sends hostile text to claim: it is refused with the code that says
// why, and never with another, or it is a key like any other, whose response
// comes back byte for byte.
func FuzzClaim(f *testing.F) {
	const path, body = "POST /v1/charges", "body"
	for _, text := range []string{
		"key", "", " ", "\x00", "a\x00b", "\xff\xfe", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x9f\x99",
		strings.Repeat("k", 255), strings.Repeat("k", 256), strings.Repeat("🔑", 255), strings.Repeat("🔑", 256),
		"👩‍👩‍👧‍👦", "e\u0301", "\u202e", "\ufeff", "\U0010ffff", "\u0085\u2028", "\x7f\x1b[0m", "\r\n",
		`'; DROP TABLE guard.idempotency_keys; --`, `\`, `\x00`, "$1", "%s", "NULL", "{}", `"`,
	} {
		f.Add(text, "key", path, body)
		f.Add("scope", text, path, body)
		f.Add("scope", "key", text, body)
		f.Add("scope", "key", path, text)
		f.Add(text, text, text, text)
	}
	f.Add("scope", "key", strings.Repeat("é", 2048), body)
	f.Add("scope", "key", strings.Repeat("é", 2049), body)

	conn := pgtest.New(f).AppConn(f)
	f.Fuzz(func(t *testing.T, scope, key, path, body string) {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
		request := guard.Request{Scope: scope, Key: key, Path: path, Hash: sum(body)}
		claim := func() (guard.Result, error) {
			return guard.Claim(t.Context(), tx, request, time.Minute, time.Hour)
		}

		claimed, err := claim()
		require.Equal(t, refusal(request), guard.SQLState(err), "%v", err)
		if err != nil {
			return
		}
		require.Equal(t, guard.Claimed, claimed.Outcome)
		running, err := claim()
		require.NoError(t, err)
		require.Equal(t, guard.Conflict, running.Outcome)
		response := guard.Response{Status: 201, Headers: map[string]string{}, Body: []byte(body)}
		_, err = guard.Complete(t.Context(), tx, guard.Holder{Scope: scope, Key: key, Fence: claimed.Fence}, response)
		require.NoError(t, err)
		replay, err := claim()
		require.NoError(t, err)
		require.Equal(t, guard.Result{Outcome: guard.Replay, Response: response}, replay)
		request.Hash = sum(body + " ")
		other, err := claim()
		require.NoError(t, err)
		require.Equal(t, guard.Mismatch, other.Outcome)
	})
}

// refusal is the code with which claim must refuse a request, or empty.
func refusal(request guard.Request) string {
	for _, text := range []string{request.Scope, request.Key, request.Path} {
		if strings.Contains(text, "\x00") || !utf8.ValidString(text) {
			return notText
		}
	}
	within := func(text string, longest int) bool {
		length := utf8.RuneCountInString(text)
		return length >= 1 && length <= longest
	}
	switch {
	case !within(request.Scope, 255):
		return guard.InvalidScope
	case !within(request.Key, 255):
		return guard.InvalidKey
	case !within(request.Path, 2048):
		return guard.InvalidRequestPath
	default:
		return ""
	}
}
