-- guard.inspect
BEGIN;
SELECT plan(10);

SELECT is_empty($$SELECT * FROM guard.inspect('scope', 'key')$$, 'never claimed: no row');
SELECT claim() \g /dev/null
SELECT results_eq(
    $$SELECT i.* FROM guard.inspect('scope', 'key') AS i$$,
    $$SELECT scope, key, 'held'::text, request_path, request_hash, fence, NULL::int, NULL::jsonb, NULL::int,
             locked_at, lease_until, completed_at, created_at, expires_at
        FROM guard.idempotency_keys$$,
    'held, and the row as it is');
SELECT is_empty($$SELECT * FROM guard.inspect('another', 'key')$$, 'another scope is another key');
SELECT elapse('61 seconds');
SELECT is(state, 'in_doubt', 'the lease is over: in doubt') FROM guard.inspect('scope', 'key');
SELECT elapse('25 hours');
SELECT is(state, 'in_doubt', 'past its life: still in doubt') FROM guard.inspect('scope', 'key');
SELECT complete(fence(), 'four') \g /dev/null
SELECT results_eq(
    $$SELECT state, response_status, response_headers, response_bytes, completed_at FROM guard.inspect('scope', 'key')$$,
    $$SELECT 'completed'::text, 201, '{"Location": "/1"}'::jsonb, 4, completed_at FROM guard.idempotency_keys$$,
    'completed, with the length of the body');
SELECT elapse('25 hours');
SELECT is(state, 'expired', 'past its life: expired') FROM guard.inspect('scope', 'key');
SELECT is_empty($$SELECT * FROM guard.inspect(NULL, 'key')$$, 'no scope: no row');
SELECT is_empty($$SELECT * FROM guard.inspect('scope', NULL)$$, 'no key: no row');
SELECT is_empty($$SELECT * FROM guard.inspect('scope', '')$$, 'an empty key: no row');

SELECT * FROM finish();
ROLLBACK;
