SELECT plan(20);
CREATE TEMP TABLE held AS SELECT fence FROM guard.claim('m', 'k', 'POST /x', sha256('a'), interval '60 seconds', interval '2 hours');
SELECT results_eq(
    $$SELECT c.outcome, c.fence = held.fence, c.response_status, c.response_headers, c.response_body
        FROM held, guard.complete('m', 'k', held.fence, 201, '{"Location": "/x/1"}', 'body') AS c$$,
    $$VALUES ('completed', true, 201, '{"Location": "/x/1"}'::jsonb, 'body'::bytea)$$, 'completed');
SELECT ok(expires_at - completed_at = interval '2 hours', 'the response lives for the key''s whole time to live')
  FROM guard.idempotency_keys;
SELECT results_eq(
    $$SELECT c.outcome, c.response_status, c.response_body FROM held, guard.complete('m', 'k', held.fence, 500, NULL, 'other') AS c$$,
    $$VALUES ('replay', 201, 'body'::bytea)$$, 'completing twice hands back the first response');

-- FF-07: a stale holder changes nothing, and gets the winner's response.
CREATE TEMP TABLE stale AS SELECT fence FROM guard.claim('m', 'z', 'POST /x', sha256('a'));
UPDATE guard.idempotency_keys SET lease_until = clock_timestamp() WHERE key = 'z';
CREATE TEMP TABLE winner AS SELECT fence FROM guard.claim('m', 'z', 'POST /x', sha256('a'));
SELECT is(c.outcome, 'conflict', 'FF-07 the winner is at work') FROM stale, guard.complete('m', 'z', stale.fence, 200, NULL, 'stale') AS c;
SELECT ok(completed_at IS NULL, 'FF-07 nothing was stored') FROM guard.idempotency_keys WHERE key = 'z';
SELECT is(c.outcome, 'completed', 'FF-07 the winner completes') FROM winner, guard.complete('m', 'z', winner.fence, 200, NULL, 'winner') AS c;
SELECT results_eq(
    $$SELECT c.outcome, c.response_body FROM stale, guard.complete('m', 'z', stale.fence, 200, NULL, 'stale') AS c$$,
    $$VALUES ('replay', 'winner'::bytea)$$, 'FF-07 the stale holder answers with the winner''s response');
SELECT is(outcome, 'gone', 'no such key: gone') FROM guard.complete('m', 'none', 1, 200, NULL, NULL);

-- A holder whose lease ran out, and whom nobody replaced, may still complete.
CREATE TEMP TABLE late AS SELECT fence FROM guard.claim('m', 'late', 'POST /x', sha256('a'));
UPDATE guard.idempotency_keys
   SET locked_at = clock_timestamp() - interval '2 hours', lease_until = clock_timestamp() - interval '1 hour',
       expires_at = clock_timestamp()
 WHERE key = 'late';
SELECT is(c.outcome, 'completed', 'late, but still the newest holder') FROM late, guard.complete('m', 'late', late.fence, 204, NULL, NULL) AS c;
SELECT results_eq(
    $$SELECT outcome, response_status, response_headers, response_body FROM guard.claim('m', 'late', 'POST /x', sha256('a'))$$,
    $$VALUES ('replay', 204, '{}'::jsonb, ''::bytea)$$, 'FF-16 empty: no headers and no body are kept as such');

-- FF-16, FF-32: whatever the bytes are.
CREATE TEMP TABLE bytes AS
SELECT string_agg(set_byte('\x00', 0, b), '' ORDER BY b) AS body FROM generate_series(0, 255) AS b;
SELECT is(x.outcome, 'completed', 'all 256 byte values')
  FROM bytes, guard.claim('m', 'bytes', 'POST /x', sha256('a')) AS c, guard.complete('m', 'bytes', c.fence, 200, NULL, bytes.body) AS x;
SELECT ok(c.response_body = bytes.body AND octet_length(c.response_body) = 256, 'FF-16 identical on replay')
  FROM bytes, guard.claim('m', 'bytes', 'POST /x', sha256('a')) AS c;
SELECT is(x.outcome, 'completed', 'odd JSON')
  FROM guard.claim('m', 'json', 'POST /x', sha256('a')) AS c,
       guard.complete('m', 'json', c.fence, 200, NULL, '{"b":12345678901234567890.10,"a":1,"a":2 }') AS x;
SELECT is(convert_from(response_body, 'UTF8'), '{"b":12345678901234567890.10,"a":1,"a":2 }', 'FF-32 byte for byte')
  FROM guard.claim('m', 'json', 'POST /x', sha256('a'));

SELECT throws_ok($$SELECT guard.complete(NULL, 'k', 1, 200, NULL, NULL)$$, 'IK001');
SELECT throws_ok($$SELECT guard.complete('m', repeat('k', 256), 1, 200, NULL, NULL)$$, 'IK002');
SELECT throws_ok($$SELECT guard.complete('m', 'k', NULL, 200, NULL, NULL)$$, 'IK007');
SELECT throws_ok($$SELECT guard.complete('m', 'k', 1, 99, NULL, NULL)$$, 'IK008');
SELECT throws_ok($$SELECT guard.complete('m', 'k', 1, 600, NULL, NULL)$$, 'IK008');
SELECT throws_ok($$SELECT guard.complete('m', 'k', 1, 200, '[]', NULL)$$, 'IK009');
SELECT * FROM finish();
