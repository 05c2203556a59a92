-- guard.stats
BEGIN;
SELECT plan(3);

SELECT results_eq(
    $$SELECT * FROM guard.stats()$$,
    $$VALUES (0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, NULL::timestamptz, NULL::timestamptz)$$,
    'one row, with no key at all');

SELECT claim(k) FROM unnest(ARRAY['doubt 1', 'doubt 2', 'done 1', 'done 2', 'done 3']) AS k \g /dev/null
SELECT complete(fence(k), 'done', k) FROM unnest(ARRAY['done 1', 'done 2']) AS k \g /dev/null
SELECT elapse('30 hours');
SELECT complete(fence('done 3'), 'done', 'done 3') \g /dev/null
SELECT elapse('1 hour');
SELECT claim(k) FROM unnest(ARRAY['held 1', 'held 2', 'held 3', 'held 4']) AS k \g /dev/null
SELECT results_eq(
    $$SELECT total, held, in_doubt, completed, expired FROM guard.stats()$$,
    $$VALUES (9::bigint, 4::bigint, 2::bigint, 1::bigint, 2::bigint)$$,
    'counts by state');
SELECT results_eq(
    $$SELECT oldest_expired_at, oldest_lease_past_due FROM guard.stats()$$,
    $$SELECT min(expires_at) FILTER (WHERE key LIKE 'done _'), min(lease_until) FILTER (WHERE key LIKE 'doubt _')
        FROM guard.idempotency_keys$$,
    'what waits longest for purge, and in doubt');

SELECT * FROM finish();
ROLLBACK;
