package payments

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/postgres"
)

// However many guess, and however slow the database is: keys that were never
// seen use a part of the connections, and those who have a key go on.
func TestGuessingLeavesConnectionsForOthers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	owner := db.Conn(t)
	require.NoError(t, StoreAPIKey(t.Context(), owner, "known", "shop", ""))
	config, err := pgxpool.ParseConfig(db.AppURL)
	require.NoError(t, err)
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	keys := NewAPIKeys(pool)
	keys.life = time.Hour
	_, err = keys.Merchant(t.Context(), "known")
	require.NoError(t, err)

	// Each look-up hangs from here on.
	held, err := owner.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = held.Rollback(context.WithoutCancel(t.Context())) })
	_, err = held.Exec(t.Context(), `LOCK TABLE payments.api_keys IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	bounded, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var guesses sync.WaitGroup
	refused := make(chan error, 40)
	for i := range cap(refused) {
		guesses.Go(func() {
			_, err := keys.Merchant(bounded, fmt.Sprint("guess ", i))
			refused <- err
		})
	}
	for range cap(refused) - 2 {
		require.ErrorIs(t, <-refused, postgres.ErrBusy)
	}
	require.EqualValues(t, 2, pool.Stat().AcquiredConns(), "a quarter of the pool")
	merchant, err := keys.Merchant(t.Context(), "known")
	require.NoError(t, err)
	require.Equal(t, "shop", merchant)
	require.NoError(t, pool.Ping(t.Context()), "there are connections left for work")

	require.NoError(t, held.Rollback(t.Context()))
	guesses.Wait()
	for range 2 {
		require.ErrorIs(t, <-refused, ErrUnknownAPIKey)
	}
	_, err = keys.Merchant(t.Context(), "guess again")
	require.ErrorIs(t, err, ErrUnknownAPIKey, "guessing is let in again")
}

// counting counts the queries of a database.
type counting struct {
	guard.DB
	queries atomic.Int64
}

func (c *counting) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c.queries.Add(1)
	return c.DB.QueryRow(ctx, sql, args...)
}

// Many requests with one key at once, as after a start, need one look-up.
func TestManyWithOneKeyAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	require.NoError(t, StoreAPIKey(t.Context(), db.Conn(t), "known", "shop", ""))
	config, err := pgxpool.ParseConfig(db.AppURL)
	require.NoError(t, err)
	config.MaxConns = strangersPart
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	keys := NewAPIKeys(pool)
	keys.life = time.Hour
	counted := &counting{DB: keys.db}
	keys.db = counted

	var wait sync.WaitGroup
	found := make(chan error, 50)
	for range cap(found) {
		wait.Go(func() {
			_, err := keys.Merchant(t.Context(), "known")
			found <- err
		})
	}
	wait.Wait()
	for range cap(found) {
		require.NoError(t, <-found)
	}
	require.EqualValues(t, 1, counted.queries.Load())
}
