-- guard.release
BEGIN;
SELECT plan(26);

SELECT fence AS mine FROM claim() \gset
SELECT ok(guard.release('scope', 'key', :mine), 'the holder gives the key back');
SELECT is(count(*), 0::bigint, 'the row is gone') FROM guard.idempotency_keys;
SELECT ok(NOT guard.release('scope', 'key', :mine), 'twice: there is nothing to give back');
SELECT is(words(claim(p_body => 'other')), 'claimed fence', 'a retry starts anew, with any body');
SELECT cmp_ok(fence(), '>', :mine::bigint, 'with a fence that the key never had');
SELECT everything() AS before \gset
SELECT ok(NOT guard.release('scope', 'key', :mine), 'FF-07 the old fence is worth nothing');
SELECT is(everything(), :'before', 'FF-07 and changes nothing');

-- FF-07: stale, whatever the next holder does.
SELECT fence AS stale FROM claim('taken over') \gset
SELECT elapse('61 seconds');
SELECT fence AS next FROM claim('taken over') \gset
SELECT everything() AS before \gset
SELECT ok(NOT guard.release('scope', 'taken over', :stale), 'FF-07 stale: the new holder is at work');
SELECT ok(NOT guard.release('scope', 'taken over', :next + 1), 'a fence that was never given');
SELECT is(everything(), :'before', 'nothing changes');
SELECT complete(:next, 'winner', 'taken over') \g /dev/null
SELECT everything() AS before \gset
SELECT ok(NOT guard.release('scope', 'taken over', :stale), 'FF-07 stale: the new holder has completed');
SELECT ok(NOT guard.release('scope', 'taken over', :next), 'a completed key is not given back');
SELECT is(everything(), :'before', 'nothing changes');

-- A lease that is over stops nobody who was not replaced.
SELECT fence AS mine FROM claim('late') \gset
SELECT elapse('30 hours');
SELECT ok(guard.release('scope', 'late', :mine), 'late, but nobody took over');
SELECT fence AS mine FROM claim('in doubt') \gset
SELECT ok(guard.abandon('scope', 'in doubt', :mine), 'left in doubt');
SELECT ok(guard.release('scope', 'in doubt', :mine), 'and given back, once it is known that nothing happened');

SELECT ok(NOT guard.release('another', 'key', fence()), 'another scope is another key');
SELECT ok(NOT guard.release('scope', 'never claimed', 1), 'never claimed');
SELECT ok(NOT guard.release(repeat('🔑', 255), repeat('鍵', 255), 1), 'as long as can be');
SELECT throws_ok(format($$SELECT guard.release(%s)$$, arguments), code, NULL, arguments)
  FROM (VALUES
    ('NULL, ''k'', 1', 'IK001'), (''''', ''k'', 1', 'IK001'), ('repeat(''s'', 256), ''k'', 1', 'IK001'),
    ('''s'', NULL, 1', 'IK002'), ('''s'', '''', 1', 'IK002'), ('''s'', repeat(''k'', 256), 1', 'IK002'),
    ('''s'', ''k'', NULL', 'IK007')
  ) AS bad (arguments, code);

SELECT * FROM finish();
ROLLBACK;
