package postgres_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// wire counts what the client sends. A Sync (or simple Query) ends each round
// trip of the PostgreSQL protocol: the client waits for the answer to it.
type wire struct {
	net.Conn
	counts *counts
	rest   []byte
	typed  bool
}

type counts struct {
	mu       sync.Mutex
	messages map[byte]int
	writes   int
}

func (c *counts) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages, c.writes = map[byte]int{}, 0
}

func (c *counts) roundTrips() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.messages['S'] + c.messages['Q']
}

func (c *counts) of(message byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.messages[message]
}

func (w *wire) Write(b []byte) (int, error) {
	w.counts.mu.Lock()
	w.counts.writes++
	w.rest = append(w.rest, b...)
	if !w.typed && len(w.rest) >= 4 {
		// The startup message alone has no type byte.
		if size := int(binary.BigEndian.Uint32(w.rest)); len(w.rest) >= size {
			w.rest, w.typed = w.rest[size:], true
		}
	}
	for w.typed && len(w.rest) >= 5 {
		size := 1 + int(binary.BigEndian.Uint32(w.rest[1:]))
		if len(w.rest) < size {
			break
		}
		w.counts.messages[w.rest[0]]++
		w.rest = w.rest[size:]
	}
	w.counts.mu.Unlock()
	return w.Conn.Write(b)
}

// SyscallConn keeps the peek at the socket working through the wrapper.
func (w *wire) SyscallConn() (syscall.RawConn, error) {
	return w.Conn.(interface {
		SyscallConn() (syscall.RawConn, error)
	}).SyscallConn()
}

func counted(t *testing.T, url string) (*pgxpool.Config, *counts) {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns = 1
	c := &counts{messages: map[byte]int{}}
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wire{Conn: conn, counts: c}, nil
	}
	return config, c
}

func request(key string) guard.Request {
	hash := sha256.Sum256([]byte("body"))
	return guard.Request{Scope: "m", Key: key, Path: "POST /v1/charges", Hash: hash[:]}
}

func TestOneClaimIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	config, sent := counted(t, pgtest.New(t).URL)
	pool, err := postgres.OpenConfig(t.Context(), config, guard.Statements()...)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, pool.Ping(t.Context()))

	claimOnce := func(key string) {
		sent.reset()
		claimed, err := guard.Claim(t.Context(), pool, request(key), time.Minute, time.Hour)
		require.NoError(t, err)
		require.Equal(t, guard.Claimed, claimed.Outcome)
		require.Equal(t, 1, sent.roundTrips(), "messages: %v", sent.messages)
		require.Zero(t, sent.of('P'), "the statement is prepared when the connection is made")
		require.Equal(t, 1, sent.writes)
	}
	claimOnce("first")
	// pgx would ping a connection that was idle for longer than a second.
	time.Sleep(1100 * time.Millisecond)
	claimOnce("after an idle time")
}

// The count above can fail: a pool as pgx makes it pings an idle connection.
func TestCountSeesThePingOfAnIdleConnection(t *testing.T) {
	t.Parallel()
	config, sent := counted(t, pgtest.New(t).URL)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = guard.Claim(t.Context(), pool, request("first"), time.Minute, time.Hour)
	require.NoError(t, err)
	time.Sleep(1100 * time.Millisecond)
	sent.reset()
	_, err = guard.Claim(t.Context(), pool, request("second"), time.Minute, time.Hour)
	require.NoError(t, err)
	require.Equal(t, 2, sent.roundTrips())
}

func TestConnectionThatTheServerClosedIsNotUsed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	config, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	config.MaxConns = 1
	pool, err := postgres.OpenConfig(t.Context(), config, guard.Statements()...)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	var pid int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_catalog.pg_backend_pid()").Scan(&pid))

	admin := db.Conn(t)
	_, err = admin.Exec(t.Context(), "SELECT pg_catalog.pg_terminate_backend($1, 5000)", pid)
	require.NoError(t, err)

	claimed, err := guard.Claim(t.Context(), pool, request("k"), time.Minute, time.Hour)
	require.NoError(t, err)
	require.Equal(t, guard.Claimed, claimed.Outcome)
}
