-- guard.is_held
BEGIN;
SELECT plan(10);

SELECT ok(NOT guard.is_held('scope', 'key'), 'never claimed');
SELECT claim() \g /dev/null
SELECT ok(guard.is_held('scope', 'key'), 'claimed');
SELECT ok(NOT guard.is_held('another', 'key'), 'another scope is another key');
SELECT elapse('59 seconds');
SELECT ok(guard.is_held('scope', 'key'), 'until the lease ends');
SELECT elapse('2 seconds');
SELECT ok(NOT guard.is_held('scope', 'key'), 'and no longer');
SELECT claim() \g /dev/null
SELECT ok(guard.is_held('scope', 'key'), 'taken over');
SELECT complete(fence()) \g /dev/null
SELECT ok(NOT guard.is_held('scope', 'key'), 'completed, within the lease');
SELECT ok(NOT guard.is_held(NULL, 'key'), 'no scope');
SELECT ok(NOT guard.is_held('scope', NULL), 'no key');
SELECT ok(NOT guard.is_held('scope', ''), 'an empty key');

SELECT * FROM finish();
ROLLBACK;
