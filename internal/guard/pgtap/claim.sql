-- guard.claim
BEGIN;
SELECT plan(70);

-- A new key.
SELECT is(words(claim()), 'claimed fence', 'a new key is claimed');
SELECT results_eq(
    $$SELECT scope, key, request_path, request_hash, lease_until - locked_at, expires_at - locked_at,
             created_at = locked_at, locked_at BETWEEN now() AND clock_timestamp(),
             num_nulls(completed_at, response_status, response_headers, response_body)
        FROM guard.idempotency_keys$$,
    $$VALUES ('scope', 'key', 'POST /v1/charges', sha256('body'), interval '60 seconds', interval '24 hours',
              true, true, 4)$$,
    'it is held for 60 seconds and lives for 24 hours by default');

-- While it is held.
SELECT everything() AS before \gset
SELECT is(words(claim()), 'conflict retry', 'the same request: conflict');
SELECT is((claim()).retry_after_ms, 1000, 'a long lease: ask again in a second');
SELECT is(words(claim(p_body => 'other')), 'mismatch', 'FF-02 another body: mismatch, not conflict');
SELECT is(words(claim(p_path => 'POST /v1/refunds')), 'mismatch', 'FF-12 another path: mismatch');
SELECT is(words(claim(p_path => 'PUT /v1/charges')), 'mismatch', 'FF-12 another method: mismatch');
SELECT is(words(claim(p_body => 'other', p_path => 'PUT /v1/refunds')), 'mismatch', 'all of it: mismatch');
SELECT is(everything(), :'before', 'conflict and mismatch write nothing');
SELECT elapse('59 seconds');
SELECT is((claim()).outcome, 'conflict', 'conflict until the lease ends');

-- FF-04, FF-05: the lease ended, the holder never completed.
SELECT elapse('2 seconds');
SELECT everything() AS before, fence() AS stale \gset
SELECT is(words(claim(p_body => 'other')), 'mismatch', 'mismatch wins over a takeover');
SELECT is(words(claim(p_path => 'POST /v1/refunds')), 'mismatch', 'so it does for the path');
SELECT is(everything(), :'before', 'and writes nothing');
SELECT is(words(claim()), 'claimed fence recovered', 'the same request takes over, in doubt');
SELECT is(fence(), :stale + 1, 'with the next fence');
SELECT results_eq(
    $$SELECT lease_until - locked_at, expires_at - locked_at, locked_at > now(), created_at < now() FROM guard.idempotency_keys$$,
    $$VALUES (interval '60 seconds', interval '24 hours', true, true)$$,
    'lease and life count from the takeover, the key stays as old as it is');
SELECT is(words(claim()), 'conflict retry', 'the new holder is at work');

-- Completed.
SELECT is(words(complete(fence())), 'completed fence 201 {"Location": "/1"} done', 'completed');
SELECT everything() AS before \gset
SELECT is(words(claim()), 'replay 201 {"Location": "/1"} done', 'the same request: replay');
SELECT is(words(claim(p_body => 'other')), 'mismatch', 'another body: mismatch');
SELECT is(words(claim(p_path => 'POST /v1/refunds')), 'mismatch', 'another path: mismatch');
SELECT is(everything(), :'before', 'replay and mismatch write nothing');
SELECT elapse('23 hours 59 minutes');
SELECT is((claim()).outcome, 'replay', 'replay for the key''s life');
SELECT is((claim(p_body => 'other')).outcome, 'mismatch', 'mismatch for the key''s life');

-- FF-31: past its life, and purge has not run.
SELECT elapse('2 minutes');
SELECT fence() AS stale \gset
SELECT is(words(claim(p_body => 'other', p_path => 'POST /v1/refunds')), 'claimed fence',
          'FF-31 expired: claimed anew, with another body and path');
SELECT is(fence(), :stale + 1, 'with the next fence');
SELECT results_eq(
    $$SELECT request_path, request_hash, created_at > now(),
             num_nulls(completed_at, response_status, response_headers, response_body)
        FROM guard.idempotency_keys$$,
    $$VALUES ('POST /v1/refunds', sha256('other'), true, 4)$$,
    'nothing of its earlier life is left');
SELECT is((claim()).outcome, 'mismatch', 'the earlier request is now another one');
SELECT (complete(fence())).outcome \g /dev/null
SELECT elapse('25 hours');
SELECT is(words(claim(p_body => 'other', p_path => 'POST /v1/refunds')), 'claimed fence',
          'expired: claimed anew, with the same body and path');

-- Past its life and never completed: its money may have moved.
SELECT elapse('25 hours');
SELECT is(words(claim()), 'claimed fence recovered', 'expired, never completed, another body: in doubt');
SELECT ok(created_at > now(), 'a new life all the same') FROM guard.idempotency_keys;
SELECT elapse('25 hours');
SELECT is(words(claim()), 'claimed fence recovered', 'expired, never completed, the same body: in doubt');

-- Past its life and held: the holder is still at work.
SELECT ok(guard.extend(p_scope => 'scope', p_key => 'key', p_fence => fence(), p_lease => '1 day'), 'extended');
UPDATE guard.idempotency_keys SET expires_at = clock_timestamp() - interval '1 hour';
SELECT is(words(claim()), 'conflict retry', 'expired while the lease runs: conflict');
SELECT is(words(claim(p_body => 'other')), 'mismatch', 'with another body: mismatch');

-- Given back, or left in doubt.
SELECT fence() AS last \gset
SELECT ok(guard.release(p_scope => 'scope', p_key => 'key', p_fence => :last), 'released');
SELECT is(words(claim(p_body => 'other')), 'claimed fence', 'a released key is a new one, not in doubt');
SELECT cmp_ok(fence(), '>', :last::bigint, 'and never has a fence that it had before');
SELECT ok(guard.abandon(p_scope => 'scope', p_key => 'key', p_fence => fence()), 'abandoned');
SELECT is(words(claim()), 'mismatch', 'an abandoned key belongs to its request');
SELECT is(words(claim(p_body => 'other')), 'claimed fence recovered', 'which takes it over at once, in doubt');

-- What a key is.
SELECT is(words(claim(p_scope => 'another')), 'claimed fence', 'another scope is another key');
SELECT is(words(claim(p_key => e)), 'claimed fence', 'another key: ' || e)
  FROM unnest(ARRAY['KEY', 'key ', ' key', 'ｋｅｙ', '''; --']) AS e;
SELECT is(words(claim(p_key => U&'e\0301')), 'claimed fence', 'a letter and its accent');
SELECT is(words(claim(p_key => U&'\00E9')), 'claimed fence', 'are another key than the letter with it');

-- Limits.
SELECT is(words(guard.claim(repeat('🔑', 255), repeat('鍵', 255), repeat('é', 2048), sha256(''), '1 day', '3650 days')),
          'claimed fence', 'as long as can be');
SELECT is(words(guard.claim('s', 'k', 'p', sha256(''), '1 microsecond', '1 microsecond')), 'claimed fence', 'as short as can be');
SELECT throws_ok(format($$SELECT guard.claim(%s)$$, arguments), code, NULL, arguments)
  FROM (VALUES
    ('NULL, ''k'', ''p'', sha256('''')', 'IK001'),
    (''''', ''k'', ''p'', sha256('''')', 'IK001'),
    ('repeat(''s'', 256), ''k'', ''p'', sha256('''')', 'IK001'),
    ('''s'', NULL, ''p'', sha256('''')', 'IK002'),
    ('''s'', '''', ''p'', sha256('''')', 'IK002'),
    ('''s'', repeat(''k'', 256), ''p'', sha256('''')', 'IK002'),
    ('''s'', ''k'', NULL, sha256('''')', 'IK003'),
    ('''s'', ''k'', '''', sha256('''')', 'IK003'),
    ('''s'', ''k'', repeat(''p'', 2049), sha256('''')', 'IK003'),
    ('''s'', ''k'', ''p'', NULL', 'IK004'),
    ('''s'', ''k'', ''p'', substr(sha256(''''), 2)', 'IK004'),
    ('''s'', ''k'', ''p'', sha256('''') || ''\x00''', 'IK004'),
    ('''s'', ''k'', ''p'', sha256(''''), NULL', 'IK005'),
    ('''s'', ''k'', ''p'', sha256(''''), ''0''', 'IK005'),
    ('''s'', ''k'', ''p'', sha256(''''), ''-1 second''', 'IK005'),
    ('''s'', ''k'', ''p'', sha256(''''), ''1 day 1 microsecond'', ''2 days''', 'IK005'),
    ('''s'', ''k'', ''p'', sha256(''''), ''1 second'', NULL', 'IK006'),
    ('''s'', ''k'', ''p'', sha256(''''), ''1 second'', ''999 milliseconds''', 'IK006'),
    ('''s'', ''k'', ''p'', sha256(''''), ''1 second'', ''3650 days 1 microsecond''', 'IK006')
  ) AS bad (arguments, code);

SELECT * FROM finish();
ROLLBACK;
