-- guard.abandon
BEGIN;
SELECT plan(26);

SELECT fence AS mine FROM claim() \gset
SELECT ok(guard.abandon('scope', 'key', :mine), 'the holder leaves the work in doubt');
SELECT results_eq(
    $$SELECT lease_until BETWEEN now() AND clock_timestamp(), expires_at - locked_at, completed_at FROM guard.idempotency_keys$$,
    $$VALUES (true, interval '24 hours', NULL::timestamptz)$$, 'the lease is over, the key stays');
SELECT lease_until AS ended FROM guard.idempotency_keys \gset
SELECT ok(guard.abandon('scope', 'key', :mine), 'twice');
SELECT is(lease_until, :'ended', 'does not bring the lease back') FROM guard.idempotency_keys;
SELECT is(words(claim(p_body => 'other')), 'mismatch', 'another request cannot have it');
SELECT is(words(claim()), 'claimed fence recovered', 'the same request takes over at once, in doubt');

-- FF-07: stale, whatever the next holder does.
SELECT fence() AS next \gset
SELECT everything() AS before \gset
SELECT ok(NOT guard.abandon('scope', 'key', :mine), 'FF-07 stale: the new holder is at work');
SELECT ok(NOT guard.abandon('scope', 'key', :next + 1), 'a fence that was never given');
SELECT is(everything(), :'before', 'nothing changes');
SELECT complete(:next) \g /dev/null
SELECT everything() AS before \gset
SELECT ok(NOT guard.abandon('scope', 'key', :mine), 'FF-07 stale: the new holder has completed');
SELECT ok(NOT guard.abandon('scope', 'key', :next), 'a completed key is not in doubt');
SELECT is(everything(), :'before', 'nothing changes');

SELECT fence AS mine FROM claim('late') \gset
SELECT elapse('30 hours');
SELECT lease_until AS ended FROM guard.idempotency_keys WHERE key = 'late' \gset
SELECT ok(guard.abandon('scope', 'late', :mine), 'late, but nobody took over');
SELECT is(lease_until, :'ended', 'a lease that is over stays as it is') FROM guard.idempotency_keys WHERE key = 'late';
SELECT guard.release('scope', 'late', :mine) \g /dev/null
SELECT ok(NOT guard.abandon('scope', 'late', :mine), 'released');

SELECT ok(NOT guard.abandon('another', 'key', :next), 'another scope is another key');
SELECT ok(NOT guard.abandon('scope', 'never claimed', 1), 'never claimed');
SELECT is(count(*), 1::bigint, 'and no row is left behind') FROM guard.idempotency_keys;
SELECT ok(NOT guard.abandon(repeat('🔑', 255), repeat('鍵', 255), 1), 'as long as can be');
SELECT throws_ok(format($$SELECT guard.abandon(%s)$$, arguments), code, NULL, arguments)
  FROM (VALUES
    ('NULL, ''k'', 1', 'IK001'), (''''', ''k'', 1', 'IK001'), ('repeat(''s'', 256), ''k'', 1', 'IK001'),
    ('''s'', NULL, 1', 'IK002'), ('''s'', '''', 1', 'IK002'), ('''s'', repeat(''k'', 256), 1', 'IK002'),
    ('''s'', ''k'', NULL', 'IK007')
  ) AS bad (arguments, code);

SELECT * FROM finish();
ROLLBACK;
