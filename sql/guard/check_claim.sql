-- Says which argument of a claim is out of range. Called when one is, so that
-- the arguments that are right cost one expression.
CREATE OR REPLACE FUNCTION guard.check_claim(
    p_scope        text,
    p_key          text,
    p_request_path text,
    p_request_hash bytea,
    p_lease        interval,
    p_ttl          interval
)
RETURNS void
LANGUAGE plpgsql
IMMUTABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF p_scope IS NULL OR char_length(p_scope) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'p_scope must have 1 to 255 characters' USING ERRCODE = 'IK001';
    END IF;
    IF p_key IS NULL OR char_length(p_key) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'p_key must have 1 to 255 characters' USING ERRCODE = 'IK002';
    END IF;
    IF p_request_path IS NULL OR char_length(p_request_path) NOT BETWEEN 1 AND 2048 THEN
        RAISE EXCEPTION 'p_request_path must have 1 to 2048 characters' USING ERRCODE = 'IK003';
    END IF;
    IF p_request_hash IS NULL OR octet_length(p_request_hash) <> 32 THEN
        RAISE EXCEPTION 'p_request_hash must be a SHA-256, 32 bytes' USING ERRCODE = 'IK004';
    END IF;
    IF p_lease IS NULL OR p_lease <= interval '0' OR p_lease > interval '1 day' THEN
        RAISE EXCEPTION 'p_lease must be longer than 0 and at most 1 day' USING ERRCODE = 'IK005';
    END IF;
    IF p_ttl IS NULL OR p_ttl < p_lease OR p_ttl > interval '3650 days' THEN
        RAISE EXCEPTION 'p_ttl must be at least p_lease and at most 3650 days' USING ERRCODE = 'IK006';
    END IF;
END;
$function$;

COMMENT ON FUNCTION guard.check_claim(text, text, text, bytea, interval, interval) IS
'Internal: raises IK001 to IK006 for arguments that claim does not take.';
