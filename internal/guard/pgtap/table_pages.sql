-- guard.table_pages
BEGIN;
SELECT plan(2);

SELECT is(guard.table_pages(), 0::bigint, 'an empty table');
SELECT claim(k::text) FROM generate_series(1, 200) AS k \g /dev/null
SELECT is(guard.table_pages(), 1 + max(split_part(trim('()' FROM k.ctid::text), ',', 1)::bigint), 'every page that has a row')
  FROM guard.idempotency_keys AS k;

SELECT * FROM finish();
ROLLBACK;
