package guard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
)

// FuzzClaim holds that hostile text is either claimed or refused with a code of
// its own: ours, or PostgreSQL's for what is no text in UTF-8.
func FuzzClaim(f *testing.F) {
	for _, seed := range []string{
		"key", "", "\x00", "a\x00b", "\xff\xfe", "\xed\xa0\x80", strings.Repeat("k", 255), strings.Repeat("k", 256),
		strings.Repeat("🙂", 255), strings.Repeat("🙂", 256), "'; DROP TABLE guard.idempotency_keys; --", "e\u0301", "\u202e", `\`, "%s", "$1",
	} {
		f.Add(seed, seed, []byte(seed))
	}
	pool := pgtest.New(f).Pool(f)
	known := guard.SQLStates()
	f.Fuzz(func(t *testing.T, scope, key string, hash []byte) {
		for _, path := range []string{"POST /x", key} {
			claimed, err := guard.Claim(t.Context(), pool, guard.Request{Scope: scope, Key: key, Path: path, Hash: hash}, time.Minute, time.Hour)
			if err == nil {
				require.Contains(t, []guard.Outcome{guard.Claimed, guard.Conflict, guard.Mismatch}, claimed.Outcome)
				continue
			}
			code := guard.SQLState(err)
			if code != "22021" { // invalid byte sequence for the encoding
				require.Contains(t, known, code, "%v", err)
			}
		}
	})
}
