package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrBusy says that no connection of the pool became free in time: nothing was
// sent to the database.
var ErrBusy = errors.New("all database connections are in use")

// Bounded calls through a pool and waits for a free connection no longer than
// a bound, so that a database that is slow makes requests fail early instead
// of piling up.
type Bounded struct {
	pool *pgxpool.Pool
	wait time.Duration
}

// NewBounded makes a Bounded; wait is above 0.
func NewBounded(pool *pgxpool.Pool, wait time.Duration) *Bounded {
	return &Bounded{pool: pool, wait: wait}
}

// QueryRow is pgxpool.Pool.QueryRow; its Scan fails with ErrBusy when no
// connection became free.
func (b *Bounded) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	waiting, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	conn, err := b.pool.Acquire(waiting)
	switch {
	case err != nil && waiting.Err() != nil && ctx.Err() == nil && b.full():
		return failed{fmt.Errorf("%w after %s", ErrBusy, b.wait)}
	case err != nil:
		return failed{unsent{err}}
	}
	return &releasing{conn: conn, row: conn.QueryRow(ctx, sql, args...)}
}

// full tells a pool without a free connection from one that cannot connect.
func (b *Bounded) full() bool {
	stat := b.pool.Stat()
	return stat.AcquiredConns() >= stat.MaxConns()
}

// unsent is an error before anything was sent.
type unsent struct{ error }

func (u unsent) Unwrap() error     { return u.error }
func (u unsent) SafeToRetry() bool { return true }

type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }

type releasing struct {
	conn *pgxpool.Conn
	row  pgx.Row
}

func (r *releasing) Scan(into ...any) error {
	defer r.conn.Release()
	return r.row.Scan(into...) //nolint:wrapcheck // the caller says what it did
}

// Unsent tells that a failed call never reached the database: nothing happened.
func Unsent(err error) bool {
	return errors.Is(err, ErrBusy) || pgconn.SafeToRetry(err)
}

// Unanswered tells that nobody knows whether a failed call took effect, or that
// it did not because the server was going away or two transactions met: worth
// asking again. An error that the call itself caused is not.
func Unanswered(err error) bool {
	var reported *pgconn.PgError
	if !errors.As(err, &reported) {
		return err != nil
	}
	switch reported.Code {
	case "57P01", "57P02", "57P03", // shutting down, crashed, starting up
		"53300",          // too many connections
		"55P03", "57014", // lock_timeout, statement_timeout
		"40001", "40P01", // met another transaction
		"25006": // read only: a standby that has not been promoted yet
		return true
	}
	return reported.Code[:min(2, len(reported.Code))] == "08" // connection failures
}
