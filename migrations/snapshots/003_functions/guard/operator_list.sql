-- Lists keys for a person. Reads the scope's part of the table, or all of it.
CREATE OR REPLACE FUNCTION guard.operator_list(
    p_scope      text DEFAULT NULL,
    p_prefix     text DEFAULT NULL,
    p_state      text DEFAULT NULL,
    p_older_than interval DEFAULT NULL,
    p_limit      int DEFAULT 100
)
RETURNS TABLE (
    scope           text,
    key             text,
    state           text,
    request_path    text,
    fence           bigint,
    response_status int,
    created_at      timestamptz,
    lease_until     timestamptz,
    completed_at    timestamptz,
    expires_at      timestamptz
)
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    IF p_state NOT IN ('held', 'in_doubt', 'completed', 'expired') THEN
        RAISE EXCEPTION 'p_state must be held, in_doubt, completed or expired, or null for all' USING ERRCODE = 'IK014';
    END IF;
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION 'p_limit must be 1 to 100000' USING ERRCODE = 'IK014';
    END IF;
    RETURN QUERY
    SELECT s.scope, s.key, s.state, s.request_path, s.fence, s.response_status, s.created_at, s.lease_until,
           s.completed_at, s.expires_at
      FROM (SELECT k.*,
                   guard.state(p_completed_at => k.completed_at, p_lease_until => k.lease_until,
                               p_expires_at => k.expires_at, p_now => v_now) AS state
              FROM guard.idempotency_keys AS k
             WHERE (p_scope IS NULL OR k.scope = p_scope)
               AND (p_prefix IS NULL OR starts_with(k.key, p_prefix))
               AND (p_older_than IS NULL OR k.created_at <= v_now - p_older_than)) AS s
     WHERE p_state IS NULL OR s.state = p_state
     ORDER BY s.created_at DESC, s.scope, s.key
     LIMIT p_limit;
END;
$function$;

COMMENT ON FUNCTION guard.operator_list(text, text, text, interval, int) IS
'For operators: the newest p_limit keys (1 to 100000) of a scope, with a prefix, in a state (held, in_doubt, completed,
expired) and claimed longer ago than p_older_than; null is no condition. Reads the whole table unless p_scope is given.
Raises IK014 for arguments out of range.';
