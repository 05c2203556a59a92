-- guard.state
BEGIN;
SELECT plan(8);

SELECT is(guard.state(completed_at, lease_until, expires_at, '2030-01-01 12:00Z'), state,
          format('completed %s, lease until %s, expires %s', completed_at, lease_until, expires_at))
  FROM (VALUES
    (NULL::timestamptz, '2030-01-01 12:00:00.000001Z'::timestamptz, '2030-01-02Z'::timestamptz, 'held'),
    (NULL, '2030-01-01 12:00Z', '2030-01-02Z', 'in_doubt'),
    (NULL, '2030-01-01 12:01Z', '2030-01-01Z', 'held'),
    (NULL, '2030-01-01 11:59Z', '2030-01-01Z', 'in_doubt'),
    ('2030-01-01 11:00Z', '2030-01-01 12:01Z', '2030-01-02Z', 'completed'),
    ('2030-01-01 11:00Z', '2030-01-01 11:01Z', '2030-01-01 12:00:00.000001Z', 'completed'),
    ('2030-01-01 11:00Z', '2030-01-01 11:01Z', '2030-01-01 12:00Z', 'expired'),
    ('2030-01-01 11:00Z', '2030-01-01 12:01Z', '2030-01-01 11:30Z', 'expired')
  ) AS cases (completed_at, lease_until, expires_at, state);

SELECT * FROM finish();
ROLLBACK;
