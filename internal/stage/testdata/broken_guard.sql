-- A guard that forgets: each claim is the first of its key, and a charge on the
-- way is not looked for.
ALTER FUNCTION guard.claim(text, text, text, bytea, interval, interval) RENAME TO claim_right;
CREATE FUNCTION guard.claim(p_scope text, p_key text, p_request_path text, p_request_hash bytea,
                            p_lease interval DEFAULT '60 seconds', p_ttl interval DEFAULT '24 hours')
RETURNS guard.result
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    DELETE FROM guard.idempotency_keys AS k WHERE k.scope = p_scope AND k.key = p_key;
    RETURN guard.claim_right(p_scope, p_key, p_request_path, p_request_hash, p_lease, p_ttl);
END;
$function$;
GRANT EXECUTE ON FUNCTION guard.claim(text, text, text, bytea, interval, interval) TO payonce_app;

CREATE OR REPLACE FUNCTION payments.charge_to_continue(p_order payments.orders, p_key text, p_recovered boolean)
RETURNS payments.charges
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $function$ SELECT NULL::payments.charges $function$;

-- And each charge is a new attempt, which a provider does not know for a retry.
DO $do$
BEGIN
    EXECUTE replace(pg_get_functiondef('payments.begin_charge'::regproc), 'AND e.failure_kind = ''refused''', '');
END;
$do$;
