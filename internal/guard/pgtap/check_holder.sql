-- guard.check_holder
BEGIN;
SELECT plan(9);

SELECT lives_ok($$SELECT guard.check_holder('s', 'k', 0)$$, 'as short as can be');
SELECT lives_ok($$SELECT guard.check_holder(repeat('🔑', 255), repeat('鍵', 255), -1)$$, 'as long as can be');
SELECT throws_ok(format($$SELECT guard.check_holder(%s)$$, arguments), code, NULL, arguments)
  FROM (VALUES
    ('NULL, ''k'', 1', 'IK001'), (''''', ''k'', 1', 'IK001'), ('repeat(''s'', 256), ''k'', 1', 'IK001'),
    ('''s'', NULL, 1', 'IK002'), ('''s'', '''', 1', 'IK002'), ('''s'', repeat(''k'', 256), 1', 'IK002'),
    ('''s'', ''k'', NULL', 'IK007')
  ) AS bad (arguments, code);

SELECT * FROM finish();
ROLLBACK;
