package payments

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/postgres"
)

// ErrUnknownAPIKey is returned for an api key that was never made or was revoked.
var ErrUnknownAPIKey = errors.New("unknown or revoked api key")

const (
	// apiKeyLife is how long a known api key is believed without asking the
	// database, so that a request costs no round trip for it. A revoked key is
	// refused everywhere after at most this long.
	apiKeyLife = 5 * time.Second
	// apiKeyRoom bounds the memory for known api keys.
	apiKeyRoom = 10_000
)

// APIKeys finds the merchant of an api key. It keeps SHA-256 hashes only.
type APIKeys struct {
	db    guard.DB
	mu    sync.Mutex
	known map[[sha256.Size]byte]knownMerchant
}

type knownMerchant struct {
	merchant string
	until    time.Time
}

// NewAPIKeys makes an APIKeys that asks the database behind pool.
func NewAPIKeys(pool *pgxpool.Pool) *APIKeys {
	return &APIKeys{db: postgres.NewBounded(pool, busyWait), known: map[[sha256.Size]byte]knownMerchant{}}
}

// Merchant returns the merchant whose api key this is, or ErrUnknownAPIKey.
func (k *APIKeys) Merchant(ctx context.Context, apiKey string) (string, error) {
	hash := sha256.Sum256([]byte(apiKey))
	now := time.Now()
	k.mu.Lock()
	known, ok := k.known[hash]
	k.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.merchant, nil
	}
	var merchant *string
	if err := k.db.QueryRow(ctx, authenticateSQL, hash[:]).Scan(&merchant); err != nil {
		return "", fmt.Errorf("look up an api key: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if merchant == nil {
		delete(k.known, hash)
		return "", ErrUnknownAPIKey
	}
	if len(k.known) >= apiKeyRoom {
		clear(k.known)
	}
	k.known[hash] = knownMerchant{merchant: *merchant, until: now.Add(apiKeyLife)}
	return *merchant, nil
}

// CreateAPIKey makes a random api key for a merchant, stores its hash and
// returns it: the only time that it can be seen.
func CreateAPIKey(ctx context.Context, db guard.DB, merchant, label string) (string, error) {
	var random [32]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("make an api key: %w", err)
	}
	apiKey := "sk_live_" + base64.RawURLEncoding.EncodeToString(random[:])
	return apiKey, StoreAPIKey(ctx, db, apiKey, merchant, label)
}

// StoreAPIKey stores the hash of a given api key; storing it again is harmless.
func StoreAPIKey(ctx context.Context, db guard.DB, apiKey, merchant, label string) error {
	hash := sha256.Sum256([]byte(apiKey))
	var created bool
	if err := db.QueryRow(ctx, createAPIKeySQL, hash[:], merchant, label).Scan(&created); err != nil {
		return fmt.Errorf("store an api key of merchant %s: %w", merchant, err)
	}
	return nil
}
