-- guard.operator_history
BEGIN;
SELECT plan(2);

SELECT is_empty($$SELECT * FROM guard.operator_history('scope', 'key')$$, 'nobody did anything');
SELECT claim() \g /dev/null
SELECT elapse('2 minutes');
SELECT guard.operator_take('scope', 'key', 'resolve', 'ann', 'first') \g /dev/null
SELECT guard.operator_take('scope', 'key', 'release', 'bob', 'second', true) \g /dev/null
SELECT guard.release('scope', 'key', fence()) \g /dev/null
SELECT results_eq(
    $$SELECT h.action, h.actor, h.reason, h.forced FROM guard.operator_history('scope', 'key') AS h$$,
    $$VALUES ('resolve', 'ann', 'first', false), ('release', 'bob', 'second', true)$$,
    'in order, also when the key is gone');

SELECT * FROM finish();
ROLLBACK;
