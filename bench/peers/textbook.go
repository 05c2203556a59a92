package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/bench/internal/guardops"
	"github.com/payonce/payonce/bench/internal/lab"
	"github.com/payonce/payonce/internal/guard"
)

// The textbook's guard: the application looks, inserts, works and updates, over
// the same table as ours. It answers replay, conflict and mismatch; nobody but
// its holder can ever free a key, since a process that died and one that is
// slow look the same to it.
const (
	textbookSchema = `CREATE SCHEMA textbook;
CREATE TABLE textbook.keys (LIKE guard.idempotency_keys INCLUDING ALL) WITH (fillfactor = 70)`
	textbookSelectSQL = `SELECT request_path, request_hash, completed_at IS NOT NULL, response_status, response_headers, response_body
  FROM textbook.keys WHERE scope = $1 AND key = $2 AND expires_at > now()`
	textbookInsertSQL = `INSERT INTO textbook.keys (scope, key, request_path, request_hash, fence, locked_at, lease_until, created_at, expires_at)
VALUES ($1, $2, $3, $4, 1, now(), now() + $5::interval, now(), now() + $6::interval) ON CONFLICT DO NOTHING`
	textbookUpdateSQL = `UPDATE textbook.keys SET response_status = $3, response_headers = $4::jsonb, response_body = $5, completed_at = now()
 WHERE scope = $1 AND key = $2`
)

var (
	errConflict = errors.New("another request holds the key")
	errMismatch = errors.New("the key belongs to another request")
)

type textbook struct{ pool *pgxpool.Pool }

func openTextbook(ctx context.Context, l *lab.Lab) (*peer, error) {
	db, err := l.Database(ctx, "bench_textbook")
	if err != nil {
		return nil, err
	}
	if err := db.Exec(ctx, textbookSchema); err != nil {
		return nil, err
	}
	if err := db.Grant(ctx, "textbook"); err != nil {
		return nil, err
	}
	pool, err := db.Pool(ctx, poolSize, textbookSelectSQL, textbookInsertSQL, textbookUpdateSQL)
	if err != nil {
		return nil, err
	}
	t := textbook{pool: pool}
	done := guardops.NewRequest()
	if err := t.once(ctx, done); err != nil {
		pool.Close()
		return nil, err
	}
	return &peer{
		name:  "textbook SQL: SELECT, INSERT, UPDATE",
		fresh: func(ctx context.Context) error { return t.once(ctx, guardops.NewRequest()) },
		replay: func(ctx context.Context) error {
			found, err := t.find(ctx, done)
			if err == nil && (found == nil || !bytes.Equal(found.Body, guardops.Response().Body)) {
				return errors.New("the textbook's guard replayed other bytes than were stored")
			}
			return err
		},
		close: pool.Close,
	}, nil
}

// find returns the stored response of a request; nil when its key is new.
func (t textbook) find(ctx context.Context, r guard.Request) (*guard.Response, error) {
	var path string
	var hash []byte
	var completed bool
	var status *int
	var response guard.Response
	err := t.pool.QueryRow(ctx, textbookSelectSQL, r.Scope, r.Key).
		Scan(&path, &hash, &completed, &status, &response.Headers, &response.Body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for the key: %w", err)
	case path != r.Path || !bytes.Equal(hash, r.Hash):
		return nil, errMismatch
	case !completed:
		return nil, errConflict
	}
	response.Status = *status
	return &response, nil
}

// once does a piece of work that takes no time under a new key.
func (t textbook) once(ctx context.Context, r guard.Request) error {
	found, err := t.find(ctx, r)
	if err != nil {
		return err
	}
	if found != nil {
		return errors.New("a new key is known already")
	}
	tag, err := t.pool.Exec(ctx, textbookInsertSQL, r.Scope, r.Key, r.Path, r.Hash, guardops.Lease, guardops.TTL)
	if err != nil {
		return fmt.Errorf("insert the key: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errConflict
	}
	response := guardops.Response()
	headers, err := guard.EncodeHeaders(response.Headers)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := t.pool.Exec(ctx, textbookUpdateSQL, r.Scope, r.Key, response.Status, headers, response.Body); err != nil {
		return fmt.Errorf("store the response: %w", err)
	}
	return nil
}
