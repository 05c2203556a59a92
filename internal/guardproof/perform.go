package guardproof

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/payonce/payonce/internal/guard"
)

const (
	scope = "proof"
	lease = leaseHours * time.Hour
	life  = lifeHours * time.Hour

	purgeSQL = `SELECT deleted FROM guard.purge_batch(
		p_batch => 1000, p_from => '(0,0)', p_until => '(1000000,0)', p_in_doubt_grace => interval '0')`
	endLeaseSQL = `UPDATE guard.idempotency_keys SET lease_until = least(lease_until, clock_timestamp() - interval '1 hour')
		WHERE scope = $1 AND key = $2`
	// The life's beginning moves with its end: complete reckons with its length.
	expireKeySQL = `UPDATE guard.idempotency_keys AS k
		SET expires_at = least(k.expires_at, past.moment),
		    locked_at = k.locked_at - (k.expires_at - least(k.expires_at, past.moment))
		FROM (SELECT clock_timestamp() - interval '1 hour' AS moment) AS past
		WHERE k.scope = $1 AND k.key = $2`
	lookSQL = `SELECT fence, request_path, request_hash, response_status, response_headers, response_body,
		lease_until <= coalesce($3, clock_timestamp()), expires_at <= coalesce($3, clock_timestamp())
		FROM guard.idempotency_keys WHERE scope = $1 AND key = $2`
)

// requestOf is request n. From the first, the second differs in nothing but its
// path and the third in nothing but its body.
func requestOf(key, n int) guard.Request {
	hash := sha256.Sum256([]byte(strconv.Itoa((n - 1) / 2)))
	return guard.Request{
		Scope: scope, Key: keyName(key),
		Path: "POST /v1/" + strconv.Itoa(n%2), Hash: hash[:],
	}
}

func keyName(key int) string { return "key-" + strconv.Itoa(key) }

func responseOf(n int) guard.Response {
	return guard.Response{
		Status:  200 + n%100,
		Headers: map[string]string{"Number": strconv.Itoa(n)},
		Body:    []byte(strconv.Itoa(n)),
	}
}

// numberOf is the reverse of responseOf: an error is a response of which one
// part belongs to another.
func numberOf(response guard.Response) (int, error) {
	if response.Status == 0 {
		return 0, nil
	}
	n, err := strconv.Atoi(string(response.Body))
	if err != nil {
		return 0, fmt.Errorf("stored body: %w", err)
	}
	want := responseOf(n)
	if response.Status != want.Status || !maps.Equal(response.Headers, want.Headers) ||
		!bytes.Equal(response.Body, want.Body) {
		return 0, fmt.Errorf("stored response is torn: %+v", response)
	}
	return n, nil
}

// perform makes a call of a guard function.
func perform(ctx context.Context, db guard.DB, c call) (answer, error) {
	holder := guard.Holder{Scope: scope, Key: keyName(c.key), Fence: c.fence}
	switch c.do {
	case claim:
		return readResult(guard.Claim(ctx, db, requestOf(c.key, c.request), lease, life))
	case complete:
		return readResult(guard.Complete(ctx, db, holder, responseOf(c.response)))
	case release:
		return readYes(guard.Release(ctx, db, holder))
	case extend:
		return readYes(guard.Extend(ctx, db, holder, lease))
	case abandon:
		return readYes(guard.Abandon(ctx, db, holder))
	case purge:
		var a answer
		if err := db.QueryRow(ctx, purgeSQL).Scan(&a.deleted); err != nil {
			return answer{}, fmt.Errorf("purge a batch: %w", err)
		}
		return a, nil
	default:
		return answer{}, fmt.Errorf("%s is not a call", c.do)
	}
}

func readResult(result guard.Result, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	if (result.Outcome == guard.Conflict) != (result.RetryAfter > 0) || result.RetryAfter > time.Second {
		return answer{}, fmt.Errorf("%s with retry after %s", result.Outcome, result.RetryAfter)
	}
	response, err := numberOf(result.Response)
	if err != nil {
		return answer{}, err
	}
	return answer{
		outcome: result.Outcome, fence: result.Fence, recovered: result.Recovered, response: response,
	}, nil
}

func readYes(yes bool, err error) (answer, error) {
	return answer{yes: yes}, err
}

// wrote tells that the call changed the key, and so holds its lock until its
// transaction ends.
func (a answer) wrote() bool {
	return a.outcome == guard.Claimed || a.outcome == guard.Completed || a.yes || a.deleted > 0
}

// readRow reads a key past the guard, as the owner, with a moment to judge its
// times by; nil: the database's own clock.
func readRow(ctx context.Context, owner *pgx.Conn, key int, now *time.Time) (row, error) {
	var (
		r       = row{exists: true}
		path    string
		hash    []byte
		status  *int
		headers map[string]string
		body    []byte
	)
	err := owner.QueryRow(ctx, lookSQL, scope, keyName(key), now).
		Scan(&r.fence, &path, &hash, &status, &headers, &body, &r.leaseOver, &r.expired)
	if errors.Is(err, pgx.ErrNoRows) {
		return row{}, nil
	}
	if err != nil {
		return row{}, fmt.Errorf("read the row: %w", err)
	}
	if status != nil {
		if r.response, err = numberOf(guard.Response{Status: *status, Headers: headers, Body: body}); err != nil {
			return row{}, err
		}
	}
	for n := 1; n <= requests; n++ {
		if request := requestOf(key, n); request.Path == path && bytes.Equal(request.Hash, hash) {
			r.request = n
		}
	}
	return r, nil
}
