-- guard.purge, which commits, and so cannot run in a transaction that is rolled back.
SELECT plan(23);

CREATE FUNCTION keys() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(k.key, ', ' ORDER BY k.key) FROM guard.idempotency_keys AS k;
$$;

SELECT claim(k) FROM unnest(ARRAY['doubt', 'done', 'held']) AS k \g /dev/null
SELECT complete(fence('done'), 'done', 'done') \g /dev/null
CALL guard.purge();
SELECT is(keys(), 'done, doubt, held', 'nothing is past its life');
SELECT elapse('25 hours');
SELECT guard.extend('scope', 'held', fence('held'), '1 day') \g /dev/null
CALL guard.purge();
SELECT is(keys(), 'doubt, held', 'completed ones go, those in doubt stay');
SELECT elapse('31 days');
SELECT guard.extend('scope', 'held', fence('held'), '1 day') \g /dev/null
CALL guard.purge(p_in_doubt_grace => '32 days');
SELECT is(keys(), 'doubt, held', 'within a longer grace');
CALL guard.purge();
SELECT is(keys(), 'held', 'after 30 days those in doubt go, held ones stay');
SELECT guard.abandon('scope', 'held', fence('held')) \g /dev/null
CALL guard.purge();
SELECT is(keys(), NULL, 'the last one goes');

SELECT claim(k::text) FROM generate_series(1, 50) AS k \g /dev/null
SELECT elapse('60 days');
CALL guard.purge(p_batch => 4, p_max_batches => 3);
SELECT is(count(*), 38::bigint, 'three batches of four') FROM guard.idempotency_keys;
CALL guard.purge(4);
SELECT is(count(*), 0::bigint, 'all batches of four') FROM guard.idempotency_keys;

SELECT current_setting('transaction_isolation') AS level \gset
CALL guard.purge();
SELECT is(current_setting('transaction_isolation'), :'level', 'the caller''s isolation level is as it was');

BEGIN;
SELECT throws_ok($$CALL guard.purge()$$, '2D000', NULL, 'not in a transaction');
ROLLBACK;
SELECT throws_ok(format($$CALL guard.purge(%s)$$, arguments), 'IK011', NULL, arguments)
  FROM unnest(ARRAY[
    'p_batch => NULL', 'p_batch => 0', 'p_batch => -1', 'p_batch => 100001', 'p_max_batches => 0', 'p_max_batches => -1',
    'p_in_doubt_grace => NULL', 'p_in_doubt_grace => ''-1 second''', 'p_share => NULL', 'p_share => 0', 'p_share => -0.1',
    'p_share => 1.1', 'p_share => ''NaN'''
  ]) AS arguments;
CALL guard.purge(p_batch => 1, p_max_batches => 1, p_in_doubt_grace => '0', p_share => 0.001);
CALL guard.purge(p_batch => 100000, p_max_batches => NULL, p_share => 1);
SELECT pass('the limits themselves');
DROP FUNCTION keys();

SELECT * FROM finish();
