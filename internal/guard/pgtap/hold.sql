-- guard.hold
BEGIN;
SELECT plan(22);

SELECT fence AS mine FROM claim() \gset
SELECT k AS before FROM guard.idempotency_keys AS k \gset
SELECT ok(guard.hold('scope', 'key', :mine), 'the newest holder');
SELECT is(k::text, :'before', 'holding changes nothing') FROM guard.idempotency_keys AS k;
SELECT elapse('30 hours');
SELECT ok(guard.hold('scope', 'key', :mine), 'late, but nobody took over');
SELECT ok(guard.abandon('scope', 'key', :mine), 'left in doubt');
SELECT ok(guard.hold('scope', 'key', :mine), 'still the newest');

-- FF-07: stale, whatever the next holder does.
SELECT fence AS next FROM claim() \gset
SELECT everything() AS before \gset
SELECT ok(NOT guard.hold('scope', 'key', :mine), 'FF-07 stale: the new holder is at work');
SELECT ok(NOT guard.hold('scope', 'key', :next + 1), 'a fence that was never given');
SELECT complete(:next) \g /dev/null
SELECT everything() AS before \gset
SELECT ok(NOT guard.hold('scope', 'key', :mine), 'FF-07 stale: the new holder has completed');
SELECT ok(NOT guard.hold('scope', 'key', :next), 'a completed key is held by nobody');
SELECT is(everything(), :'before', 'nothing changes');

SELECT fence AS mine FROM claim('released') \gset
SELECT guard.release('scope', 'released', :mine) \g /dev/null
SELECT ok(NOT guard.hold('scope', 'released', :mine), 'released');
SELECT ok(NOT guard.hold('another', 'key', :next), 'another scope is another key');
SELECT ok(NOT guard.hold('scope', 'never claimed', 1), 'never claimed');
SELECT is(count(*), 1::bigint, 'and no row is left behind') FROM guard.idempotency_keys;

SELECT ok(NOT guard.hold(repeat('🔑', 255), repeat('鍵', 255), 1), 'as long as can be');
SELECT throws_ok(format($$SELECT guard.hold(%s)$$, arguments), code, NULL, arguments)
  FROM (VALUES
    ('NULL, ''k'', 1', 'IK001'), (''''', ''k'', 1', 'IK001'), ('repeat(''s'', 256), ''k'', 1', 'IK001'),
    ('''s'', NULL, 1', 'IK002'), ('''s'', '''', 1', 'IK002'), ('''s'', repeat(''k'', 256), 1', 'IK002'),
    ('''s'', ''k'', NULL', 'IK007')
  ) AS bad (arguments, code);

SELECT * FROM finish();
ROLLBACK;
