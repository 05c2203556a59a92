package payments

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
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
	// strangersPart is the part of the pool's connections that api keys which
	// were never seen here may use at once: whoever guesses keys must not take
	// the database from those who have one.
	strangersPart = 4
)

// APIKeys finds the merchant of an api key. It keeps SHA-256 hashes only: keys
// are looked up by hash, so that no comparison's time tells anything of them.
type APIKeys struct {
	db        guard.DB
	life      time.Duration
	strangers chan struct{}
	mu        sync.Mutex
	known     map[[sha256.Size]byte]knownMerchant
}

type knownMerchant struct {
	merchant string
	until    time.Time
}

// NewAPIKeys makes an APIKeys that asks the database behind pool.
func NewAPIKeys(pool *pgxpool.Pool) *APIKeys {
	return &APIKeys{
		db: postgres.NewBounded(pool, busyWait), life: apiKeyLife,
		strangers: make(chan struct{}, max(1, pool.Config().MaxConns/strangersPart)),
		known:     map[[sha256.Size]byte]knownMerchant{},
	}
}

// APIKeyID names an api key in logs and lists without telling it, as
// payments.list_api_keys does.
func APIKeyID(apiKey string) string {
	hash := sha256.Sum256([]byte(apiKey))
	return hex.EncodeToString(hash[:8])
}

// admit waits for its turn before a key that was never seen is looked up.
func (k *APIKeys) admit(ctx context.Context) (done func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, busyWait)
	defer cancel()
	select {
	case k.strangers <- struct{}{}:
		return func() { <-k.strangers }, nil
	case <-waiting.Done():
		return nil, fmt.Errorf("%w: too many unknown api keys at once", postgres.ErrBusy)
	}
}

// remembered tells the merchant of a key that is still believed, and whether
// the key was ever seen here.
func (k *APIKeys) remembered(hash [sha256.Size]byte) (merchant string, seen bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, seen := k.known[hash]
	if seen && time.Now().Before(known.until) {
		return known.merchant, true
	}
	return "", seen
}

// Merchant returns the merchant whose api key this is, or ErrUnknownAPIKey.
func (k *APIKeys) Merchant(ctx context.Context, apiKey string) (string, error) {
	hash := sha256.Sum256([]byte(apiKey))
	merchantOf, seen := k.remembered(hash)
	if merchantOf != "" {
		return merchantOf, nil
	}
	if !seen {
		done, err := k.admit(ctx)
		if err != nil {
			return "", err
		}
		defer done()
		// Many requests at once come with the same new key: the first looks it up.
		if merchantOf, _ := k.remembered(hash); merchantOf != "" {
			return merchantOf, nil
		}
	}
	now := time.Now()
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
	k.known[hash] = knownMerchant{merchant: *merchant, until: now.Add(k.life)}
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

// APIKey is what is kept of an api key.
type APIKey struct {
	ID        string     `json:"id"`
	Merchant  string     `json:"merchant"`
	Label     string     `json:"label"`
	CreatedAt time.Time  `json:"created_at"`
	RevokedAt *time.Time `json:"revoked_at"`
}

// ListAPIKeys lists the api keys of a merchant, or all when it is empty.
func ListAPIKeys(ctx context.Context, conn *pgx.Conn, merchant string) ([]APIKey, error) {
	rows, err := conn.Query(ctx, listKeysSQL, merchant)
	if err != nil {
		return nil, fmt.Errorf("list the api keys: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[APIKey])
	if err != nil {
		return nil, fmt.Errorf("list the api keys: %w", err)
	}
	return keys, nil
}

// RevokeAPIKey ends the api key with this id. earlier tells that it was revoked
// before. An id that is of no key is ErrUnknownAPIKey.
func RevokeAPIKey(ctx context.Context, db guard.DB, id string) (key APIKey, earlier bool, err error) {
	key.ID = id
	var outcome string
	err = db.QueryRow(ctx, revokeAPIKeySQL, id).Scan(&outcome, &key.Merchant, &key.Label, &key.RevokedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return APIKey{}, false, ErrUnknownAPIKey
	}
	if err != nil {
		return APIKey{}, false, fmt.Errorf("revoke api key %.20q: %w", id, err)
	}
	return key, outcome == "already", nil
}
