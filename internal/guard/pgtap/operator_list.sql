-- guard.operator_list
BEGIN;
SELECT plan(11);

CREATE FUNCTION listed(p_scope text DEFAULT NULL, p_prefix text DEFAULT NULL, p_state text DEFAULT NULL,
                       p_older_than interval DEFAULT NULL, p_limit int DEFAULT 100)
RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(l.key || ' ' || l.state, ', ' ORDER BY l.created_at DESC, l.scope, l.key), '')
      FROM guard.operator_list(p_scope => p_scope, p_prefix => p_prefix, p_state => p_state,
                               p_older_than => p_older_than, p_limit => p_limit) AS l;
$$;

SELECT is(listed(), '', 'no keys');
SELECT claim('b%1') \g /dev/null
SELECT claim('a1') \g /dev/null
SELECT complete(fence('a1'), 'done', 'a1') \g /dev/null
SELECT elapse('2 hours');
SELECT claim('a2') \g /dev/null
SELECT claim('a3', p_scope => 'other') \g /dev/null
SELECT is(listed(p_scope => 'scope'), 'a2 held, a1 completed, b%1 in_doubt', 'of a scope, the newest first');
SELECT is(listed(p_prefix => 'a'), 'a3 held, a2 held, a1 completed', 'with a prefix');
SELECT is(listed(p_prefix => 'b%'), 'b%1 in_doubt', 'a prefix is no pattern');
SELECT is(listed(p_prefix => '%'), '', 'a percent sign is itself');
SELECT is(listed(p_state => 'in_doubt'), 'b%1 in_doubt', 'in a state');
SELECT is(listed(p_older_than => '1 hour'), 'a1 completed, b%1 in_doubt', 'older than');
SELECT is(listed(p_limit => 1), 'a3 held', 'so many');
SELECT is(listed(p_scope => 'scope', p_prefix => 'a', p_state => 'held', p_older_than => '1 hour'), '', 'all conditions');
SELECT throws_ok($$SELECT listed(p_state => 'lost')$$, 'IK014', NULL, 'an unknown state');
SELECT throws_ok($$SELECT listed(p_limit => 0)$$, 'IK014', NULL, 'a limit of none');

SELECT * FROM finish();
ROLLBACK;
