-- guard.holder_row
BEGIN;
SELECT plan(8);

SELECT is(guard.holder_row('scope', 'key', 1), '(0,0)'::tid, 'never claimed');
SELECT is(count(*), 0::bigint, 'and no row is left behind') FROM guard.idempotency_keys;
SELECT fence AS mine FROM claim() \gset
SELECT k AS before FROM guard.idempotency_keys AS k \gset
SELECT guard.holder_row('scope', 'key', :mine) AS address \gset
SELECT is(:'address', k.ctid, 'the holder''s row') FROM guard.idempotency_keys AS k;
SELECT is(k::text, :'before', 'nothing in it changes') FROM guard.idempotency_keys AS k;
SELECT is(guard.holder_row('scope', 'key', :mine - 1), NULL::tid, 'a stale fence');
SELECT is(guard.holder_row('another', 'key', :mine), '(0,0)'::tid, 'another scope is another key');
SELECT complete(:mine) \g /dev/null
SELECT is(guard.holder_row('scope', 'key', :mine), NULL::tid, 'completed');
SELECT is(count(*), 1::bigint, 'and no row is left behind') FROM guard.idempotency_keys;

SELECT * FROM finish();
ROLLBACK;
