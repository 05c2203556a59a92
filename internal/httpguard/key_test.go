package httpguard

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdempotencyKeyHeader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", maxKeyLength)
	tests := map[string]struct {
		values []string
		key    string
		code   string
	}{
		"bare":                        {values: []string{"abc"}, key: "abc"},
		"quoted is the same key":      {values: []string{`"abc"`}, key: "abc"},
		"escapes":                     {values: []string{`"a\"b\\c"`}, key: `a"b\c`},
		"255 characters":              {values: []string{long}, key: long},
		"255 characters, quoted":      {values: []string{`"` + long + `"`}, key: long},
		"missing":                     {code: "idempotency_key_missing"},
		"two":                         {values: []string{"a", "b"}, code: "idempotency_key_repeated"},
		"two equal ones":              {values: []string{"a", "a"}, code: "idempotency_key_repeated"},
		"empty":                       {values: []string{""}, code: "idempotency_key_invalid"},
		"empty, quoted":               {values: []string{`""`}, code: "idempotency_key_invalid"},
		"256 characters":              {values: []string{long + "k"}, code: "idempotency_key_invalid"},
		"control character":           {values: []string{"a\x01b"}, code: "idempotency_key_invalid"},
		"delete character":            {values: []string{"a\x7fb"}, code: "idempotency_key_invalid"},
		"not ASCII":                   {values: []string{"schlüssel"}, code: "idempotency_key_invalid"},
		"quote not closed":            {values: []string{`"abc`}, code: "idempotency_key_invalid"},
		"something after the quote":   {values: []string{`"a", "b"`}, code: "idempotency_key_invalid"},
		"unknown escape":              {values: []string{`"a\n"`}, code: "idempotency_key_invalid"},
		"escape at the end":           {values: []string{`"a\`}, code: "idempotency_key_invalid"},
		"control character in quotes": {values: []string{"\"a\x00\""}, code: "idempotency_key_invalid"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, refused := Key(http.Header{"Idempotency-Key": test.values})
			if test.code == "" {
				require.Nil(t, refused)
				require.Equal(t, test.key, key)
				return
			}
			require.NotNil(t, refused)
			require.Equal(t, test.code, refused.Code)
			require.Equal(t, http.StatusBadRequest, refused.Status)
		})
	}
}

// FuzzIdempotencyKey holds that whatever a client sends is either refused or a
// key that the database takes.
func FuzzIdempotencyKey(f *testing.F) {
	for _, seed := range []string{"abc", `"abc"`, `"a\"b"`, "", `"`, `"\`, "\x00", "é", strings.Repeat("x", 300)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, refused := Key(http.Header{"Idempotency-Key": {value}})
		if refused != nil {
			require.Empty(t, key)
			return
		}
		require.NotEmpty(t, key)
		require.LessOrEqual(t, len(key), maxKeyLength)
		require.True(t, Printable(key))
	})
}
