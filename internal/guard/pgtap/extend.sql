-- guard.extend
BEGIN;
SELECT plan(33);

SELECT fence AS mine FROM claim() \gset
SELECT elapse('50 seconds');
SELECT ok(guard.extend('scope', 'key', :mine, '60 seconds'), 'the holder holds on');
SELECT ok(lease_until BETWEEN now() + interval '60 seconds' AND clock_timestamp() + interval '60 seconds', 'from now')
  FROM guard.idempotency_keys;
SELECT is(expires_at - locked_at, interval '24 hours', 'the key''s life stays as it is') FROM guard.idempotency_keys;
SELECT is(fence(), :mine, 'and so does the fence');
SELECT elapse('50 seconds');
SELECT is(words(claim()), 'conflict retry', 'held past the first lease');
SELECT ok(guard.extend('scope', 'key', :mine, '1 second'), 'a lease may be cut short');
SELECT cmp_ok(lease_until, '<=', clock_timestamp() + interval '1 second', 'it is') FROM guard.idempotency_keys;
SELECT elapse('2 seconds');
SELECT ok(NOT guard.is_held('scope', 'key'), 'the lease is over');
SELECT ok(guard.extend('scope', 'key', :mine, '60 seconds'), 'nobody took over: the holder takes it up again');
SELECT is(words(claim()), 'conflict retry', 'and holds it');

-- FF-07: stale, whatever the next holder does.
SELECT elapse('61 seconds');
SELECT fence AS next FROM claim() \gset
SELECT everything() AS before \gset
SELECT ok(NOT guard.extend('scope', 'key', :mine, '1 hour'), 'FF-07 stale: the new holder is at work');
SELECT ok(NOT guard.extend('scope', 'key', :next + 1, '1 hour'), 'a fence that was never given');
SELECT is(everything(), :'before', 'nothing changes');
SELECT complete(:next) \g /dev/null
SELECT everything() AS before \gset
SELECT ok(NOT guard.extend('scope', 'key', :mine, '1 hour'), 'FF-07 stale: the new holder has completed');
SELECT ok(NOT guard.extend('scope', 'key', :next, '1 hour'), 'a completed key is held by nobody');
SELECT is(everything(), :'before', 'nothing changes');

SELECT fence AS mine FROM claim('released') \gset
SELECT guard.release('scope', 'released', :mine) \g /dev/null
SELECT ok(NOT guard.extend('scope', 'released', :mine, '1 hour'), 'released');
SELECT ok(NOT guard.extend('another', 'key', :next, '1 hour'), 'another scope is another key');
SELECT ok(NOT guard.extend('scope', 'never claimed', 1, '1 hour'), 'never claimed');
SELECT is(count(*), 1::bigint, 'and no row is left behind') FROM guard.idempotency_keys;
SELECT ok(NOT guard.extend(repeat('🔑', 255), repeat('鍵', 255), 1, '1 day'), 'as long as can be');
SELECT ok(NOT guard.extend('s', 'k', 1, '1 microsecond'), 'as short as can be');
SELECT throws_ok(format($$SELECT guard.extend(%s)$$, arguments), code, NULL, arguments)
  FROM (VALUES
    ('NULL, ''k'', 1, ''1 s''', 'IK001'), (''''', ''k'', 1, ''1 s''', 'IK001'), ('repeat(''s'', 256), ''k'', 1, ''1 s''', 'IK001'),
    ('''s'', NULL, 1, ''1 s''', 'IK002'), ('''s'', '''', 1, ''1 s''', 'IK002'), ('''s'', repeat(''k'', 256), 1, ''1 s''', 'IK002'),
    ('''s'', ''k'', NULL, ''1 s''', 'IK007'),
    ('''s'', ''k'', 1, NULL', 'IK005'), ('''s'', ''k'', 1, ''0''', 'IK005'), ('''s'', ''k'', 1, ''-1 s''', 'IK005'),
    ('''s'', ''k'', 1, ''1 day 1 microsecond''', 'IK005')
  ) AS bad (arguments, code);

SELECT * FROM finish();
ROLLBACK;
