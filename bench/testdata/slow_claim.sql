-- A guard that takes 50 ms to claim.
ALTER FUNCTION guard.claim(text, text, text, bytea, interval, interval) RENAME TO claim_in_time;
CREATE FUNCTION guard.claim(p_scope text, p_key text, p_request_path text, p_request_hash bytea,
                            p_lease interval DEFAULT '60 seconds', p_ttl interval DEFAULT '24 hours')
RETURNS guard.result
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pg_sleep(0.05);
    RETURN guard.claim_in_time(p_scope, p_key, p_request_path, p_request_hash, p_lease, p_ttl);
END;
$function$;
GRANT EXECUTE ON FUNCTION guard.claim(text, text, text, bytea, interval, interval) TO payonce_app;
