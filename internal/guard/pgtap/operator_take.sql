-- guard.operator_take
BEGIN;
SELECT plan(20);

CREATE FUNCTION take(p_force boolean DEFAULT false, p_action text DEFAULT 'release', p_actor text DEFAULT 'ann',
                     p_reason text DEFAULT 'asked the provider')
RETURNS text LANGUAGE sql AS $$
    SELECT t.outcome FROM guard.operator_take(p_scope => 'scope', p_key => 'key', p_action => p_action, p_actor => p_actor,
                                              p_reason => p_reason, p_force => p_force) AS t;
$$;

SELECT is(take(), 'gone', 'no such key');
SELECT claim() \g /dev/null
SELECT fence() AS holder \gset
SELECT everything() AS before \gset
SELECT is(take(), 'held', 'a holder is at work');
SELECT is(take(NULL), 'held', 'null is not force');
SELECT is(everything(), :'before', 'nothing is written');
SELECT is_empty($$SELECT * FROM guard.operator_log$$, 'nor logged');

SELECT is(take(true), 'taken', 'forced');
SELECT is(fence(), :holder + 1, 'the fence grows');
SELECT is(guard.release('scope', 'key', :holder), false, 'the holder is stale');
SELECT is(words(claim()), 'conflict retry', 'others wait for the person');
SELECT results_eq(
    $$SELECT l.action, l.actor, l.reason, l.forced, l.fence FROM guard.operator_log AS l$$,
    $$SELECT 'release', 'ann', 'asked the provider', true, fence()$$,
    'who, why, and that it was forced');

SELECT elapse('25 hours');
SELECT is(take(p_action => 'resolve', p_actor => ' bob '), 'taken', 'in doubt, past its life');
SELECT results_eq(
    $$SELECT l.action, l.actor, l.forced FROM guard.operator_log AS l ORDER BY l.fence DESC LIMIT 1$$,
    $$VALUES ('resolve', 'bob', false)$$,
    'not forced');
SELECT is(words(complete(fence())), 'completed fence 201 {"Location": "/1"} done', 'the person stores the response');
SELECT ok(k.expires_at > clock_timestamp() + interval '23 hours', 'which lives as long as the claim wanted')
  FROM guard.idempotency_keys AS k;
SELECT is(take(true), 'completed', 'a response that is stored stays');
SELECT is(words(claim()), 'replay 201 {"Location": "/1"} done', 'and is replayed');

SELECT throws_ok($$SELECT take(p_action => 'delete')$$, 'IK014', NULL, 'an unknown action');
SELECT throws_ok($$SELECT take(p_actor => ' ')$$, 'IK014', NULL, 'nobody');
SELECT throws_ok($$SELECT take(p_reason => '')$$, 'IK014', NULL, 'no reason');
SELECT throws_ok($$SELECT guard.operator_take('scope', '', 'release', 'ann', 'why')$$, 'IK002', NULL, 'no key');

SELECT * FROM finish();
ROLLBACK;
