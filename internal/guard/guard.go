// Package guard calls the functions of schema guard, each in one round trip.
// The functions decide; this package only carries their words into Go.
package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Outcome is what claim and complete say. Schema payments adds its own.
type Outcome string

// The outcomes of guard.claim and guard.complete; sql/guard says what each means.
const (
	Claimed   Outcome = "claimed"
	Replay    Outcome = "replay"
	Conflict  Outcome = "conflict"
	Mismatch  Outcome = "mismatch"
	Completed Outcome = "completed"
	Gone      Outcome = "gone"
)

// Outcomes lists every outcome of schema guard.
func Outcomes() []Outcome {
	return []Outcome{Claimed, Replay, Conflict, Mismatch, Completed, Gone}
}

// Response is a stored HTTP response.
type Response struct {
	Status  int
	Headers map[string]string
	Body    []byte
}

// Result is one row of guard.result.
type Result struct {
	Outcome    Outcome
	Fence      int64
	Recovered  bool
	Response   Response
	RetryAfter time.Duration
}

// Request names the work that a key is claimed for.
type Request struct {
	Scope string
	Key   string
	// Path is method and path, such as "POST /v1/charges".
	Path string
	// Hash is the SHA-256 of the raw body, 32 bytes.
	Hash []byte
}

// Holder proves a claim: the newest fence of a key.
type Holder struct {
	Scope string
	Key   string
	Fence int64
}

// DB is what a call needs: a pgx pool, connection or transaction.
type DB interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

const (
	claimSQL = `SELECT outcome, fence, recovered, response_status, response_headers, response_body, retry_after_ms
  FROM guard.claim(p_scope => $1::text, p_key => $2::text, p_request_path => $3::text,
                   p_request_hash => $4::bytea, p_lease => $5::interval, p_ttl => $6::interval)`
	completeSQL = `SELECT outcome, fence, recovered, response_status, response_headers, response_body, retry_after_ms
  FROM guard.complete(p_scope => $1::text, p_key => $2::text, p_fence => $3::bigint, p_status => $4::int,
                      p_headers => $5::jsonb, p_body => $6::bytea)`
	releaseSQL = `SELECT guard.release(p_scope => $1::text, p_key => $2::text, p_fence => $3::bigint)`
	extendSQL  = `SELECT guard.extend(p_scope => $1::text, p_key => $2::text, p_fence => $3::bigint, p_lease => $4::interval)`
	abandonSQL = `SELECT guard.abandon(p_scope => $1::text, p_key => $2::text, p_fence => $3::bigint)`
)

// Statements lists the statements of this package, to be prepared when a
// connection is made.
func Statements() []string {
	return []string{claimSQL, completeSQL, releaseSQL, extendSQL, abandonSQL}
}

// Claim calls guard.claim.
func Claim(ctx context.Context, db DB, request Request, lease, ttl time.Duration) (Result, error) {
	row := db.QueryRow(ctx, claimSQL, request.Scope, request.Key, request.Path, request.Hash, lease, ttl)
	return scanResult(row, "claim the key")
}

// Complete calls guard.complete.
func Complete(ctx context.Context, db DB, holder Holder, response Response) (Result, error) {
	headers, err := EncodeHeaders(response.Headers)
	if err != nil {
		return Result{}, err
	}
	row := db.QueryRow(ctx, completeSQL, holder.Scope, holder.Key, holder.Fence, response.Status, headers, response.Body)
	return scanResult(row, "complete the key")
}

// Release calls guard.release.
func Release(ctx context.Context, db DB, holder Holder) (bool, error) {
	return scanBool(db.QueryRow(ctx, releaseSQL, holder.Scope, holder.Key, holder.Fence), "release the key")
}

// Extend calls guard.extend.
func Extend(ctx context.Context, db DB, holder Holder, lease time.Duration) (bool, error) {
	return scanBool(db.QueryRow(ctx, extendSQL, holder.Scope, holder.Key, holder.Fence, lease), "extend the lease")
}

// Abandon calls guard.abandon.
func Abandon(ctx context.Context, db DB, holder Holder) (bool, error) {
	return scanBool(db.QueryRow(ctx, abandonSQL, holder.Scope, holder.Key, holder.Fence), "abandon the key")
}

// EncodeHeaders writes response headers as guard.complete takes them.
func EncodeHeaders(headers map[string]string) (string, error) {
	if len(headers) == 0 {
		return "{}", nil
	}
	encoded, err := json.Marshal(headers)
	if err != nil {
		return "", fmt.Errorf("encode response headers: %w", err)
	}
	return string(encoded), nil
}

// Columns are the scan targets of the seven columns of guard.result, which
// other functions' results begin with too.
type Columns struct {
	outcome    string
	fence      *int64
	recovered  bool
	status     *int32
	headers    map[string]string
	body       []byte
	retryAfter *int32
}

// Targets are what a row is scanned into, in column order.
func (c *Columns) Targets() []any {
	return []any{&c.outcome, &c.fence, &c.recovered, &c.status, &c.headers, &c.body, &c.retryAfter}
}

// Result reads the scanned columns.
func (c *Columns) Result() Result {
	result := Result{Outcome: Outcome(c.outcome), Recovered: c.recovered}
	if c.fence != nil {
		result.Fence = *c.fence
	}
	if c.status != nil {
		result.Response = Response{Status: int(*c.status), Headers: c.headers, Body: c.body}
	}
	if c.retryAfter != nil {
		result.RetryAfter = time.Duration(*c.retryAfter) * time.Millisecond
	}
	return result
}

func scanResult(row pgx.Row, doing string) (Result, error) {
	var columns Columns
	if err := row.Scan(columns.Targets()...); err != nil {
		return Result{}, fmt.Errorf("%s: %w", doing, err)
	}
	return columns.Result(), nil
}

func scanBool(row pgx.Row, doing string) (bool, error) {
	var done bool
	if err := row.Scan(&done); err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	return done, nil
}

// SQLState is the five-character code of a database error, or empty.
func SQLState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}
