-- The one place that names the state of a key for people.
CREATE OR REPLACE FUNCTION guard.state(
    p_completed_at timestamptz,
    p_lease_until  timestamptz,
    p_expires_at   timestamptz,
    p_now          timestamptz
)
RETURNS text
LANGUAGE plpgsql
IMMUTABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF p_completed_at IS NULL THEN
        RETURN CASE WHEN p_lease_until > p_now THEN 'held' ELSE 'in_doubt' END;
    END IF;
    RETURN CASE WHEN p_expires_at > p_now THEN 'completed' ELSE 'expired' END;
END;
$function$;

COMMENT ON FUNCTION guard.state(timestamptz, timestamptz, timestamptz, timestamptz) IS
'Internal: held, in_doubt, completed or expired, as inspect and stats report it.';
