-- guard.retry_after_ms
BEGIN;
SELECT plan(7);

SELECT is(guard.retry_after_ms(lease_left), ms, lease_left || ' left')
  FROM (VALUES
    (interval '1 day', 1000), ('1 second', 1000), ('999.001 milliseconds', 1000), ('300 milliseconds', 300),
    ('1 microsecond', 1), ('0', 1), ('-1 hour', 1)
  ) AS cases (lease_left, ms);

SELECT * FROM finish();
ROLLBACK;
