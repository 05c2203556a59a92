-- release, extend, abandon, hold and is_held: what only the newest holder can do.
SELECT plan(31);
CREATE TEMP TABLE stale AS SELECT fence FROM guard.claim('m', 'k', 'POST /x', sha256('a'));
UPDATE guard.idempotency_keys SET lease_until = clock_timestamp();
SELECT ok(NOT guard.is_held('m', 'k'), 'the lease is over: not held');
CREATE TEMP TABLE newest AS SELECT fence FROM guard.claim('m', 'k', 'POST /x', sha256('a'));
SELECT ok(guard.is_held('m', 'k'), 'held');
SELECT ok(NOT guard.is_held('m', 'none'), 'no such key: not held');
CREATE TEMP TABLE untouched AS SELECT * FROM guard.idempotency_keys;

SELECT ok(NOT guard.hold('m', 'k', fence), 'FF-07 stale: hold') FROM stale;
SELECT ok(NOT guard.extend('m', 'k', fence, interval '5 minutes'), 'FF-07 stale: extend') FROM stale;
SELECT ok(NOT guard.abandon('m', 'k', fence), 'FF-07 stale: abandon') FROM stale;
SELECT ok(NOT guard.release('m', 'k', fence), 'FF-07 stale: release') FROM stale;
SELECT results_eq('SELECT * FROM guard.idempotency_keys', 'SELECT * FROM untouched', 'FF-07 nothing changed');

SELECT ok(guard.hold('m', 'k', fence), 'newest: hold') FROM newest;
SELECT results_eq('SELECT * FROM guard.idempotency_keys', 'SELECT * FROM untouched', 'hold changes nothing');
SELECT ok(guard.extend('m', 'k', fence, interval '5 minutes'), 'newest: extend') FROM newest;
SELECT ok(lease_until > clock_timestamp() + interval '4 minutes', 'extended from now') FROM guard.idempotency_keys;
SELECT ok(guard.extend('m', 'k', fence, interval '1 second'), 'extend may shorten too') FROM newest;
SELECT ok(lease_until < clock_timestamp() + interval '2 seconds', 'shortened') FROM guard.idempotency_keys;
SELECT ok(guard.abandon('m', 'k', fence), 'newest: abandon') FROM newest;
SELECT ok(NOT guard.is_held('m', 'k'), 'abandoned: the lease is over');
SELECT ok(guard.extend('m', 'k', fence, interval '1 minute'), 'nobody took over: extend takes the work up again') FROM newest;
SELECT ok(guard.abandon('m', 'k', fence), 'abandon again') FROM newest;
SELECT ok(outcome = 'claimed' AND recovered, 'abandoned: the next claim is in doubt') FROM guard.claim('m', 'k', 'POST /x', sha256('a'));
CREATE TEMP TABLE last AS SELECT fence FROM guard.idempotency_keys;
SELECT ok(guard.release('m', 'k', fence), 'newest: release') FROM last;
SELECT is(count(*), 0::bigint, 'released: the key is gone') FROM guard.idempotency_keys;
SELECT ok(NOT guard.release('m', 'k', fence), 'a second release finds nothing') FROM last;

-- A completed key is nobody's to hold.
CREATE TEMP TABLE done AS SELECT fence FROM guard.claim('m', 'done', 'POST /x', sha256('a'));
SELECT is(c.outcome, 'completed', 'completed') FROM done, guard.complete('m', 'done', done.fence, 200, NULL, NULL) AS c;
SELECT ok(NOT (guard.hold('m', 'done', fence) OR guard.extend('m', 'done', fence, interval '1 minute')
               OR guard.abandon('m', 'done', fence) OR guard.release('m', 'done', fence)), 'completed: all refused') FROM done;

SELECT throws_ok($$SELECT guard.release('', 'k', 1)$$, 'IK001');
SELECT throws_ok($$SELECT guard.abandon('m', '', 1)$$, 'IK002');
SELECT throws_ok($$SELECT guard.hold('m', 'k', NULL)$$, 'IK007');
SELECT throws_ok($$SELECT guard.extend('m', 'k', 1, interval '0')$$, 'IK005');
SELECT throws_ok($$SELECT guard.extend('m', 'k', 1, interval '25 hours')$$, 'IK005');
SELECT throws_ok($$SELECT guard.extend('m', 'k', 1, NULL)$$, 'IK005');
SELECT throws_ok($$SELECT guard.extend('m', 'k', NULL, interval '1 second')$$, 'IK007');
SELECT * FROM finish();
