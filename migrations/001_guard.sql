-- The guard's schema, table, type and roles. Also printed by `payonce sql`, so
-- every statement of a guard migration must be harmless when it runs again.
--
-- CREATE OR REPLACE FUNCTION changes neither a result nor a parameter's name: a
-- later guard migration (NNN_guard_*.sql) drops such a function, and one that is
-- no longer wanted, where it still is what it was.

-- IF NOT EXISTS alone would ask for CREATE on the database even then.
DO $do$
BEGIN
    IF pg_catalog.to_regnamespace('guard') IS NULL THEN
        CREATE SCHEMA guard;
    END IF;
END;
$do$;
REVOKE ALL ON SCHEMA guard FROM PUBLIC;
COMMENT ON SCHEMA guard IS
    'Idempotency keys: claim, complete and replay, each in one round trip. Start with \df+ guard.*';

-- Roles belong to the whole cluster: another database may be creating this one
-- right now, hence two errors to ignore.
DO $do$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'payonce_app') THEN
        CREATE ROLE payonce_app NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN
        NULL;
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'role payonce_app does not exist and % may not create it', current_user
            USING HINT = 'Ask an administrator to run: CREATE ROLE payonce_app NOLOGIN;',
                  ERRCODE = 'insufficient_privilege';
END;
$do$;
GRANT USAGE ON SCHEMA guard TO payonce_app;

-- No CHECK constraints: PostgreSQL reads and compiles each of them anew for every
-- statement, which took as long as the rest of a claim. The functions, which alone
-- may write here, check their arguments, and the tests run with the constraints
-- (docs/decisions/0001-no-check-constraints-on-hot-tables.md).
CREATE TABLE IF NOT EXISTS guard.idempotency_keys (
    scope            text        NOT NULL,
    key              text        NOT NULL,
    request_path     text        NOT NULL,
    request_hash     bytea       NOT NULL,
    fence            bigint      NOT NULL,
    response_status  int,
    response_headers jsonb,
    response_body    bytea,
    locked_at        timestamptz NOT NULL,
    lease_until      timestamptz NOT NULL,
    completed_at     timestamptz,
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (scope, key)
);

-- A key is written when it is claimed and once more when it is completed: the
-- free space keeps that second version on the same page, out of the index.
ALTER TABLE guard.idempotency_keys SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

COMMENT ON TABLE guard.idempotency_keys IS
    'One row per idempotency key. Read and written only by the functions of this schema.';
COMMENT ON COLUMN guard.idempotency_keys.scope IS
    'Who owns the key: the merchant for API calls, ''webhook'' for notifications. 1 to 255 characters.';
COMMENT ON COLUMN guard.idempotency_keys.key IS
    'The idempotency key as the client made it. 1 to 255 characters.';
COMMENT ON COLUMN guard.idempotency_keys.request_path IS
    'Method and path of the request, such as ''POST /v1/charges''. 1 to 2048 characters.';
COMMENT ON COLUMN guard.idempotency_keys.request_hash IS
    'SHA-256 of the raw request body, 32 bytes.';
COMMENT ON COLUMN guard.idempotency_keys.fence IS
    'Number of the newest claim. Starts at the claim''s time in microseconds since 1970 and grows by one '
    'with each claim of the row, so that a key that was deleted and claimed again never repeats a fence.';
COMMENT ON COLUMN guard.idempotency_keys.response_status IS
    'HTTP status of the stored response, 100 to 599; null until completed.';
COMMENT ON COLUMN guard.idempotency_keys.response_headers IS
    'Stored response headers, a JSON object; null until completed.';
COMMENT ON COLUMN guard.idempotency_keys.response_body IS
    'Stored response body, byte for byte; null until completed.';
COMMENT ON COLUMN guard.idempotency_keys.locked_at IS
    'When the newest claim was made.';
COMMENT ON COLUMN guard.idempotency_keys.lease_until IS
    'Until when the newest claim is held; after that an equal request may take the work over.';
COMMENT ON COLUMN guard.idempotency_keys.completed_at IS
    'When the response was stored; null while the work is running or in doubt.';
COMMENT ON COLUMN guard.idempotency_keys.created_at IS
    'When the key was first claimed in its present life.';
COMMENT ON COLUMN guard.idempotency_keys.expires_at IS
    'End of the key''s life: from then on a claim starts anew, whether the row was purged or not.';

CREATE TABLE IF NOT EXISTS guard.operator_log (
    scope  text        NOT NULL,
    key    text        NOT NULL,
    fence  bigint      NOT NULL,
    action text        NOT NULL,
    actor  text        NOT NULL,
    reason text        NOT NULL,
    forced boolean     NOT NULL,
    at     timestamptz NOT NULL,
    CONSTRAINT operator_log_pkey PRIMARY KEY (scope, key, fence),
    CONSTRAINT action_is_known CHECK (action IN ('release', 'resolve'))
);
COMMENT ON TABLE guard.operator_log IS
    'Keys that a person ended: who, when and why. Outlives the keys; nothing deletes from it.';
COMMENT ON COLUMN guard.operator_log.scope IS 'Who owns the key.';
COMMENT ON COLUMN guard.operator_log.key IS 'The idempotency key.';
COMMENT ON COLUMN guard.operator_log.fence IS 'The fence with which the person held the key.';
COMMENT ON COLUMN guard.operator_log.action IS 'release: freed for a new attempt; resolve: ended with a response.';
COMMENT ON COLUMN guard.operator_log.actor IS 'Who did it.';
COMMENT ON COLUMN guard.operator_log.reason IS 'Why, in the actor''s words.';
COMMENT ON COLUMN guard.operator_log.forced IS 'True when a holder was still at work.';
COMMENT ON COLUMN guard.operator_log.at IS 'When the key was taken.';

DO $do$
BEGIN
    IF pg_catalog.to_regtype('guard.result') IS NULL THEN
        CREATE TYPE guard.result AS (
            outcome          text,
            fence            bigint,
            recovered        boolean,
            response_status  int,
            response_headers jsonb,
            response_body    bytea,
            retry_after_ms   int
        );
    END IF;
END;
$do$;

COMMENT ON TYPE guard.result IS
    'What claim and complete answer: always one row.';
COMMENT ON COLUMN guard.result.outcome IS
    'claim: claimed, replay, conflict or mismatch. complete: completed, replay, conflict or gone.';
COMMENT ON COLUMN guard.result.fence IS
    'The claim''s number, to be handed to complete, release, extend and abandon; null unless claimed or completed.';
COMMENT ON COLUMN guard.result.recovered IS
    'True when an earlier claim of this key was never completed: its work is in doubt, ask before doing it again.';
COMMENT ON COLUMN guard.result.response_status IS
    'Stored HTTP status, with outcome replay or completed.';
COMMENT ON COLUMN guard.result.response_headers IS
    'Stored headers, with outcome replay or completed.';
COMMENT ON COLUMN guard.result.response_body IS
    'Stored body, with outcome replay or completed.';
COMMENT ON COLUMN guard.result.retry_after_ms IS
    'With outcome conflict: milliseconds to wait before asking again, 1 to 1000.';
