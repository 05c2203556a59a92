-- guard.sqlstates
BEGIN;
SELECT plan(2);

SELECT is_empty(
    $$SELECT sqlstate FROM guard.sqlstates() WHERE sqlstate !~ '^IK[0-9]{3}$' OR name !~ '^[a-z_]+$' OR meaning = ''$$,
    'each has a code of our class, a name and a meaning');
SELECT is_empty(
    $$SELECT sqlstate FROM guard.sqlstates() GROUP BY sqlstate HAVING count(*) > 1
      UNION ALL
      SELECT name FROM guard.sqlstates() GROUP BY name HAVING count(*) > 1$$,
    'each stands there once');

SELECT * FROM finish();
ROLLBACK;
