-- What people did to a key, oldest first.
CREATE OR REPLACE FUNCTION guard.operator_history(p_scope text, p_key text)
RETURNS TABLE (
    at     timestamptz,
    action text,
    actor  text,
    reason text,
    forced boolean,
    fence  bigint
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    RETURN QUERY
    SELECT l.at, l.action, l.actor, l.reason, l.forced, l.fence
      FROM guard.operator_log AS l
     WHERE l.scope = p_scope AND l.key = p_key
     ORDER BY l.fence;
END;
$function$;

COMMENT ON FUNCTION guard.operator_history(text, text) IS
'For operators: who took this key over by hand, when and why, also after the key was released or purged.';
