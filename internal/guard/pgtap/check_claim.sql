-- guard.check_claim
BEGIN;
SELECT plan(14);

SELECT lives_ok($$SELECT guard.check_claim('s', 'k', '/', sha256(''), '1 microsecond', '1 microsecond')$$, 'as little as can be');
SELECT lives_ok($$SELECT guard.check_claim(repeat('🔑', 255), repeat('鍵', 255), repeat('/', 2048), sha256(''), '1 day', '3650 days')$$,
                'as much as can be');
SELECT throws_ok(format($$SELECT guard.check_claim(%s)$$, arguments), code, NULL, arguments)
  FROM (VALUES
    ($$NULL, 'k', '/', sha256(''), '1 s', '1 s'$$, 'IK001'),
    ($$repeat('s', 256), 'k', '/', sha256(''), '1 s', '1 s'$$, 'IK001'),
    ($$'s', '', '/', sha256(''), '1 s', '1 s'$$, 'IK002'),
    ($$'s', 'k', '', sha256(''), '1 s', '1 s'$$, 'IK003'),
    ($$'s', 'k', repeat('/', 2049), sha256(''), '1 s', '1 s'$$, 'IK003'),
    ($$'s', 'k', '/', NULL, '1 s', '1 s'$$, 'IK004'),
    ($$'s', 'k', '/', '\x00', '1 s', '1 s'$$, 'IK004'),
    ($$'s', 'k', '/', sha256(''), '0 s', '1 s'$$, 'IK005'),
    ($$'s', 'k', '/', sha256(''), '25 hours', '1 year'$$, 'IK005'),
    ($$'s', 'k', '/', sha256(''), NULL, '1 year'$$, 'IK005'),
    ($$'s', 'k', '/', sha256(''), '2 s', '1 s'$$, 'IK006'),
    ($$'s', 'k', '/', sha256(''), '2 s', '3651 days'$$, 'IK006')
  ) AS bad (arguments, code);

SELECT * FROM finish();
ROLLBACK;
