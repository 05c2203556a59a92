-- guard.purge_batch
BEGIN;
SELECT plan(13);

CREATE FUNCTION keys() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(k.key, ', ' ORDER BY k.key) FROM guard.idempotency_keys AS k;
$$;
CREATE FUNCTION batch(p_grace interval, p_batch int DEFAULT 100) RETURNS int LANGUAGE sql AS $$
    SELECT deleted FROM guard.purge_batch(p_batch => p_batch, p_from => '(0,0)', p_until => '(100,0)', p_in_doubt_grace => p_grace);
$$;

SELECT claim(k) FROM unnest(ARRAY['done', 'doubt', 'held']) AS k \g /dev/null
SELECT complete(fence('done'), 'done', 'done') \g /dev/null
SELECT is(batch('0'), 0, 'nothing is past its life');
SELECT elapse('23 hours 59 minutes');
SELECT is(batch('0'), 0, 'nor is it now');
SELECT ok(guard.extend('scope', 'held', fence('held'), '1 day'), 'one is held past its life');
SELECT elapse('2 minutes');
SELECT is(batch('30 days'), 1, 'past its life and completed');
SELECT is(keys(), 'doubt, held', 'is gone; what is in doubt stays');
SELECT elapse('30 days');
SELECT ok(guard.extend('scope', 'held', fence('held'), '1 day'), 'one is still held');
SELECT is(batch('31 days'), 0, 'within a longer grace');
SELECT is(batch('30 days'), 1, 'after the grace');
SELECT is(keys(), 'held', 'what is held stays, whatever its life was');
SELECT is(batch('0'), 0, 'even without grace');
SELECT ok(guard.abandon('scope', 'held', fence('held')), 'no longer held');
SELECT is(batch('0'), 1, 'is gone');

SELECT claim(k::text) FROM generate_series(1, 5) AS k \g /dev/null
SELECT elapse('30 hours');
SELECT results_eq(
    $$SELECT a.deleted, a.last IS NULL, b.deleted, b.last IS NULL, c.deleted, c.last IS NULL
        FROM guard.purge_batch(p_batch => 2, p_from => '(0,0)', p_until => '(100,0)', p_in_doubt_grace => '0') AS a,
             guard.purge_batch(p_batch => 2, p_from => a.last, p_until => '(100,0)', p_in_doubt_grace => '0') AS b,
             guard.purge_batch(p_batch => 2, p_from => b.last, p_until => '(100,0)', p_in_doubt_grace => '0') AS c$$,
    $$VALUES (2, false, 2, false, 1, true)$$,
    'a full batch says where the next one starts');

SELECT * FROM finish();
ROLLBACK;
