SELECT plan(40);

-- A new key is claimed; the same request meets a conflict, another a mismatch.
SELECT is(outcome, 'claimed', 'a new key is claimed') FROM guard.claim('m', 'k', 'POST /x', sha256('a'));
SELECT is(outcome, 'conflict', 'held: conflict') FROM guard.claim('m', 'k', 'POST /x', sha256('a'));
SELECT ok(retry_after_ms BETWEEN 1 AND 1000, 'conflict says when to come back') FROM guard.claim('m', 'k', 'POST /x', sha256('a'));
SELECT ok(fence IS NULL AND NOT recovered AND response_status IS NULL, 'conflict tells nothing else')
  FROM guard.claim('m', 'k', 'POST /x', sha256('a'));
SELECT is(outcome, 'mismatch', 'FF-02 another body: mismatch, not conflict') FROM guard.claim('m', 'k', 'POST /x', sha256('b'));
SELECT is(outcome, 'mismatch', 'FF-12 another path: mismatch') FROM guard.claim('m', 'k', 'POST /y', sha256('a'));
SELECT is(outcome, 'mismatch', 'FF-12 another method: mismatch') FROM guard.claim('m', 'k', 'PUT /x', sha256('a'));
SELECT is(outcome, 'claimed', 'another scope never sees the key') FROM guard.claim('n', 'k', 'POST /x', sha256('a'));
SELECT is(count(*), 1::bigint, 'exactly one row') FROM guard.claim('m', 'k', 'POST /x', sha256('b'));

-- FF-04: after the lease an equal request takes the work over, in doubt.
UPDATE guard.idempotency_keys SET lease_until = clock_timestamp() WHERE scope = 'm';
SELECT is(outcome, 'mismatch', 'another body does not take over') FROM guard.claim('m', 'k', 'POST /x', sha256('b'));
CREATE TEMP TABLE before AS SELECT fence, created_at FROM guard.idempotency_keys WHERE scope = 'm';
CREATE TEMP TABLE taken AS SELECT * FROM guard.claim('m', 'k', 'POST /x', sha256('a'));
SELECT is(outcome, 'claimed', 'FF-04 the lease is over: claimed') FROM taken;
SELECT ok(recovered, 'FF-04 and in doubt') FROM taken;
SELECT is(taken.fence, before.fence + 1, 'the fence grows by one') FROM taken, before;
SELECT ok(lease_until > clock_timestamp() + interval '50 seconds', 'a fresh lease') FROM guard.idempotency_keys WHERE scope = 'm';
SELECT is(k.created_at, before.created_at, 'the same life of the key') FROM guard.idempotency_keys AS k, before WHERE k.scope = 'm';

-- Completed: replay, byte for byte; mismatch still wins.
SELECT is(c.outcome, 'completed', 'completed')
  FROM taken, guard.complete('m', 'k', taken.fence, 201, '{"A": "b"}', '\x00ff') AS c;
SELECT results_eq(
    $$SELECT outcome, recovered, response_status, response_headers, response_body FROM guard.claim('m', 'k', 'POST /x', sha256('a'))$$,
    $$VALUES ('replay', false, 201, '{"A": "b"}'::jsonb, '\x00ff'::bytea)$$, 'replay of the stored response');
SELECT is(outcome, 'mismatch', 'completed, another body: mismatch') FROM guard.claim('m', 'k', 'POST /x', sha256('b'));

-- FF-31: an expired key starts anew, purged or not, with any body.
UPDATE guard.idempotency_keys SET expires_at = clock_timestamp() WHERE scope = 'm';
SELECT ok(outcome = 'claimed' AND NOT recovered, 'FF-31 expired, completed, another body: claimed, not in doubt')
  FROM guard.claim('m', 'k', 'POST /z', sha256('c'));
SELECT ok(response_status IS NULL AND response_headers IS NULL AND response_body IS NULL AND completed_at IS NULL,
          'FF-31 nothing of the old life is left') FROM guard.idempotency_keys WHERE scope = 'm';

-- Expired without a response: its work may have had an effect.
UPDATE guard.idempotency_keys SET lease_until = clock_timestamp(), expires_at = clock_timestamp() WHERE scope = 'm';
SELECT ok(outcome = 'claimed' AND recovered, 'expired, never completed, another body: claimed in doubt')
  FROM guard.claim('m', 'k', 'POST /x', sha256('d'));
-- A lease that outlives the key's life still holds it.
UPDATE guard.idempotency_keys SET expires_at = clock_timestamp() WHERE scope = 'm';
SELECT is(outcome, 'conflict', 'a running lease keeps an expired key') FROM guard.claim('m', 'k', 'POST /x', sha256('d'));

-- A key that was deleted and claimed again never repeats a fence.
CREATE TEMP TABLE first_life AS SELECT fence FROM guard.claim('m', 'again', 'POST /x', sha256('a'));
SELECT ok(guard.release('m', 'again', fence), 'released') FROM first_life;
SELECT ok(c.fence > f.fence, 'the fence of the next life is another') FROM first_life AS f, guard.claim('m', 'again', 'POST /x', sha256('a')) AS c;

-- Limits.
SELECT is(outcome, 'claimed', '255 characters') FROM guard.claim(repeat('s', 255), repeat('é', 255), repeat('p', 2048), sha256('a'));
SELECT throws_ok($$SELECT guard.claim(NULL, 'k', 'p', sha256('a'))$$, 'IK001');
SELECT throws_ok($$SELECT guard.claim('', 'k', 'p', sha256('a'))$$, 'IK001');
SELECT throws_ok($$SELECT guard.claim(repeat('s', 256), 'k', 'p', sha256('a'))$$, 'IK001');
SELECT throws_ok($$SELECT guard.claim('m', NULL, 'p', sha256('a'))$$, 'IK002');
SELECT throws_ok($$SELECT guard.claim('m', '', 'p', sha256('a'))$$, 'IK002');
SELECT throws_ok($$SELECT guard.claim('m', repeat('k', 256), 'p', sha256('a'))$$, 'IK002');
SELECT throws_ok($$SELECT guard.claim('m', 'k', '', sha256('a'))$$, 'IK003');
SELECT throws_ok($$SELECT guard.claim('m', 'k', repeat('p', 2049), sha256('a'))$$, 'IK003');
SELECT throws_ok($$SELECT guard.claim('m', 'k', 'p', '\x00')$$, 'IK004');
SELECT throws_ok($$SELECT guard.claim('m', 'k', 'p', NULL)$$, 'IK004');
SELECT throws_ok($$SELECT guard.claim('m', 'k', 'p', sha256('a'), interval '0')$$, 'IK005');
SELECT throws_ok($$SELECT guard.claim('m', 'k', 'p', sha256('a'), interval '1 day 1 second', interval '30 days')$$, 'IK005');
SELECT throws_ok($$SELECT guard.claim('m', 'k', 'p', sha256('a'), NULL)$$, 'IK005');
SELECT throws_ok($$SELECT guard.claim('m', 'k', 'p', sha256('a'), interval '2 seconds', interval '1 second')$$, 'IK006');
SELECT throws_ok($$SELECT guard.claim('m', 'k', 'p', sha256('a'), interval '1 second', interval '3651 days')$$, 'IK006');
SELECT * FROM finish();
