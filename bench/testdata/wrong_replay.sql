-- A guard that replays one byte too many.
ALTER FUNCTION guard.claim(text, text, text, bytea, interval, interval) RENAME TO claim_right;
CREATE FUNCTION guard.claim(p_scope text, p_key text, p_request_path text, p_request_hash bytea,
                            p_lease interval DEFAULT '60 seconds', p_ttl interval DEFAULT '24 hours')
RETURNS guard.result
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_result guard.result;
BEGIN
    v_result := guard.claim_right(p_scope, p_key, p_request_path, p_request_hash, p_lease, p_ttl);
    v_result.response_body := v_result.response_body || '\x00';
    RETURN v_result;
END;
$function$;
GRANT EXECUTE ON FUNCTION guard.claim(text, text, text, bytea, interval, interval) TO payonce_app;
