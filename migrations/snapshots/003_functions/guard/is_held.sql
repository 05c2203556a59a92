-- Tells whether somebody is at work under a key.
CREATE OR REPLACE FUNCTION guard.is_held(p_scope text, p_key text)
RETURNS boolean
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_held boolean;
BEGIN
    SELECT k.completed_at IS NULL AND k.lease_until > v_now INTO v_held
      FROM guard.idempotency_keys AS k
     WHERE k.scope = p_scope AND k.key = p_key;
    RETURN coalesce(v_held, false);
END;
$function$;

COMMENT ON FUNCTION guard.is_held(text, text) IS
'True while a claim of the key is running: not completed and within its lease.';
