package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/pgtest"
)

// A key is made, found by its hash, and refused everywhere once it is revoked.
func TestAPIKeyIsMadeAndRevoked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	text, code := command(t, "", "apikey", "list", "--database-url", db.URL)
	require.Zero(t, code)
	require.Equal(t, "no such api keys\n", text)

	text, code = command(t, "", "apikey", "create", "--merchant", "shop", "--label", "till 3", "--database-url", db.URL)
	require.Zero(t, code, text)
	apiKey := strings.TrimSuffix(text, "\n")
	require.Regexp(t, `^sk_live_[\w-]{43}$`, apiKey, "256 random bits")
	other, code := command(t, "", "apikey", "create", "--merchant", "shop", "--database-url", db.URL)
	require.Zero(t, code, other)
	require.NotEqual(t, text, other)

	// Nothing that is stored could be sent as a key.
	hash := sha256.Sum256([]byte(apiKey))
	stored := one(t, db.Conn(t), `SELECT pg_catalog.string_agg(a::text, ' ') FROM payments.api_keys AS a`)
	require.Contains(t, stored, hex.EncodeToString(hash[:]))
	require.NotContains(t, stored, apiKey)
	require.NotContains(t, stored, hex.EncodeToString([]byte(apiKey)))

	pool, err := pgxpool.New(t.Context(), db.AppURL)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	server := payments.NewAPIKeys(pool)
	merchant, err := server.Merchant(t.Context(), apiKey)
	require.NoError(t, err)
	require.Equal(t, "shop", merchant)
	_, err = server.Merchant(t.Context(), apiKey+"x")
	require.ErrorIs(t, err, payments.ErrUnknownAPIKey)

	text, code = command(t, "", "apikey", "list", "--merchant", "shop", "--database-url", db.URL)
	require.Zero(t, code)
	id := payments.APIKeyID(apiKey)
	require.Regexp(t, `(?m)^`+id+` +shop +till 3 +\S+Z +-$`, text)
	require.NotContains(t, text, apiKey)

	text, code = command(t, "", "apikey", "revoke", id, "--database-url", db.URL)
	require.Zero(t, code, text)
	require.Equal(t, "api key "+id+" of merchant shop (till 3) revoked\n", text)
	_, err = payments.NewAPIKeys(pool).Merchant(t.Context(), apiKey)
	require.ErrorIs(t, err, payments.ErrUnknownAPIKey, "a server that never saw it refuses it at once")
	require.Eventually(t, func() bool {
		_, err := server.Merchant(t.Context(), apiKey)
		return errors.Is(err, payments.ErrUnknownAPIKey)
	}, 30*time.Second, 100*time.Millisecond, "a server that knew it still takes it")
	merchant, err = server.Merchant(t.Context(), strings.TrimSuffix(other, "\n"))
	require.NoError(t, err)
	require.Equal(t, "shop", merchant, "the merchant's other key goes on")

	text, code = command(t, "", "apikey", "revoke", id, "--database-url", db.URL)
	require.Zero(t, code)
	require.Contains(t, text, "was revoked before, at ")
	text, code = command(t, "", "apikey", "list", "--json", "--database-url", db.URL)
	require.Zero(t, code)
	var first payments.APIKey
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(text, "\n", 2)[0]), &first))
	require.Equal(t, id, first.ID)
	require.NotNil(t, first.RevokedAt)
}

func TestAPIKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	text, code := command(t, "", "apikey", "revoke", "0123456789abcdef", "--database-url", db.URL)
	require.Equal(t, exitRefused, code)
	require.Contains(t, text, "there is no api key with the id 0123456789abcdef")
	for _, id := range []string{"%", "0123456789abcde", "0123456789ABCDEF", "sk_live_x"} {
		text, code = command(t, "", "apikey", "revoke", id, "--database-url", db.URL)
		require.Equal(t, exitFailed, code)
		require.Contains(t, text, "p_key_id must be 16 hexadecimal digits")
	}
	// The scope of notifications is no merchant's.
	for _, merchant := range []string{"webhook", "", strings.Repeat("m", 256)} {
		text, code = command(t, "", "apikey", "create", "--merchant", merchant, "--database-url", db.URL)
		require.Equal(t, exitFailed, code)
		require.Contains(t, text, "p_merchant must have 1 to 255 characters and not be webhook")
	}
	// The server's role makes no keys, and sees none.
	for _, args := range [][]string{{"create", "--merchant", "shop"}, {"list"}, {"revoke", "0123456789abcdef"}} {
		text, code = command(t, "", append(append([]string{"apikey"}, args...), "--database-url", db.AppURL)...)
		require.Equal(t, exitFailed, code)
		require.Contains(t, text, "42501", args)
	}
}
