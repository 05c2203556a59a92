package guardproof

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// steppedClock gives a database a clock that stands still but for one
// microsecond at each reading, and that a test can set: a lease then ends at
// exactly the moment that a claim reads. The functions under test differ from
// the real ones in nothing but the name of the clock.
const steppedClock = `
CREATE SCHEMA proof;
GRANT USAGE ON SCHEMA proof TO payonce_app;
CREATE UNLOGGED SEQUENCE proof.microseconds MINVALUE 0;
CREATE FUNCTION proof.now() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN timestamptz '2030-01-01 00:00:00Z' + nextval('proof.microseconds') * interval '1 microsecond';
END $$;
-- From the next reading on it is at least this hour, to the microsecond.
CREATE FUNCTION proof.pass_time(hour int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT last_value FROM proof.microseconds) < hour * 3600000000 THEN
        PERFORM setval('proof.microseconds', hour * 3600000000 - 1);
    END IF;
END $$;
CREATE FUNCTION proof.reset() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM guard.idempotency_keys;
    PERFORM setval('proof.microseconds', 0);
END $$;`

// epoch is hour 0 of the stepped clock.
var epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// clockReaders are the functions that decide by the clock.
var clockReaders = []string{"claim", "complete", "extend", "abandon", "purge_batch"}

// cloneStepped is clone with the stepped clock.
func (t Target) cloneStepped(ctx context.Context, changes ...replacement) (Target, func(context.Context) error, error) {
	for _, function := range clockReaders {
		changes = append(changes, replacement{function, "clock_timestamp()", "proof.now()"})
	}
	copied, drop, err := t.clone(ctx, changes...)
	if err != nil {
		return Target{}, nil, err
	}
	return copied, drop, execute(ctx, copied.Owner, steppedClock)
}

// begin sets the clock to hour 0 and lays the initial row of key 0.
func begin(ctx context.Context, owner *pgx.Conn, initial state) error {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT proof.reset()`)
	if initial.exists {
		hour := func(h int) time.Time { return epoch.Add(time.Duration(h) * time.Hour) }
		request := requestOf(0, initial.request)
		var status *int
		var headers map[string]string
		var body []byte
		var completedAt *time.Time
		lockedAt := hour(initial.expiresAt - initial.life)
		if initial.response != 0 {
			response := responseOf(initial.response)
			status, headers, body, completedAt = &response.Status, response.Headers, response.Body, &lockedAt
		}
		batch.Queue(`INSERT INTO guard.idempotency_keys (scope, key, request_path, request_hash, fence, response_status,
			response_headers, response_body, locked_at, lease_until, completed_at, created_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $9, $12)`,
			scope, keyName(0), request.Path, request.Hash, initial.fence, status, headers, body,
			lockedAt, hour(initial.leaseUntil), completedAt, hour(initial.expiresAt))
	}
	if err := owner.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("lay the initial row: %w", err)
	}
	return nil
}
