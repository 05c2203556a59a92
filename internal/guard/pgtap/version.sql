-- guard.version
BEGIN;
SELECT plan(1);
SELECT cmp_ok(guard.version(), '>=', 1, 'counts from 1');
SELECT * FROM finish();
ROLLBACK;
