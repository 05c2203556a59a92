-- inspect, stats and purge_batch, for operators.
SELECT plan(14);
SELECT is(count(*), 0::bigint, 'no such key: no row') FROM guard.inspect('m', 'none');
CREATE TEMP TABLE made AS
SELECT name, (SELECT c.fence FROM guard.claim('m', name, 'POST /x', sha256('a')) AS c) AS fence
  FROM unnest(ARRAY['held', 'in_doubt', 'old_doubt', 'completed', 'expired']) AS name;
SELECT is(bool_and(c.outcome = 'completed'), true, 'two are completed')
  FROM made, guard.complete('m', made.name, made.fence, 201, '{"A": "b"}', 'body') AS c
 WHERE made.name IN ('completed', 'expired');
UPDATE guard.idempotency_keys SET lease_until = clock_timestamp() WHERE key IN ('in_doubt', 'old_doubt');
UPDATE guard.idempotency_keys SET expires_at = clock_timestamp() - interval '1 minute' WHERE key IN ('expired', 'in_doubt', 'held');
UPDATE guard.idempotency_keys SET expires_at = clock_timestamp() - interval '31 days' WHERE key = 'old_doubt';
SELECT results_eq(
    $$SELECT made.name, i.state FROM made, guard.inspect('m', made.name) AS i ORDER BY 1$$,
    $$VALUES ('completed', 'completed'), ('expired', 'expired'), ('held', 'held'), ('in_doubt', 'in_doubt'), ('old_doubt', 'in_doubt')$$,
    'inspect names each state');
SELECT results_eq(
    $$SELECT request_path, response_status, response_headers, response_bytes FROM guard.inspect('m', 'completed')$$,
    $$VALUES ('POST /x', 201, '{"A": "b"}'::jsonb, 4)$$, 'inspect shows the response but not its body');
SELECT results_eq(
    $$SELECT total, held, in_doubt, completed, expired FROM guard.stats()$$,
    $$VALUES (5::bigint, 1::bigint, 2::bigint, 1::bigint, 1::bigint)$$, 'stats counts by state');
SELECT ok(oldest_expired_at < clock_timestamp() AND oldest_lease_past_due < clock_timestamp(), 'stats tells what is oldest')
  FROM guard.stats();
SELECT is(guard.retry_after_ms(interval '0.1 ms'), 1, 'at least a millisecond');
SELECT is(guard.retry_after_ms(interval '1 hour'), 1000, 'at most a second');

-- purge in one batch, since a test runs in one transaction.
SELECT is(deleted, 2, 'expired ones and old doubts go') FROM guard.purge_batch(100, '(0,0)', '(1000,0)', interval '30 days');
SELECT results_eq($$SELECT key FROM guard.idempotency_keys ORDER BY 1$$, $$VALUES ('completed'), ('held'), ('in_doubt')$$,
    'a running lease and a young doubt stay, expired or not');
SELECT is(deleted, 1, 'without grace doubts go too') FROM guard.purge_batch(100, '(0,0)', '(1000,0)', interval '0');
SELECT throws_ok($$CALL guard.purge(0)$$, 'IK011');
SELECT throws_ok($$CALL guard.purge(1, 0)$$, 'IK011');
SELECT throws_ok($$CALL guard.purge(1, 1, interval '-1 second')$$, 'IK011');
SELECT * FROM finish();
