-- Shows one key to an operator, without the stored body.
CREATE OR REPLACE FUNCTION guard.inspect(p_scope text, p_key text)
RETURNS TABLE (
    scope            text,
    key              text,
    state            text,
    request_path     text,
    request_hash     bytea,
    fence            bigint,
    response_status  int,
    response_headers jsonb,
    response_bytes   int,
    locked_at        timestamptz,
    lease_until      timestamptz,
    completed_at     timestamptz,
    created_at       timestamptz,
    expires_at       timestamptz
)
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    SELECT k.scope, k.key,
           guard.state(p_completed_at => k.completed_at, p_lease_until => k.lease_until,
                       p_expires_at => k.expires_at, p_now => v_now),
           k.request_path, k.request_hash, k.fence, k.response_status, k.response_headers,
           octet_length(k.response_body), k.locked_at, k.lease_until, k.completed_at, k.created_at, k.expires_at
      FROM guard.idempotency_keys AS k
     WHERE k.scope = p_scope AND k.key = p_key;
END;
$function$;

COMMENT ON FUNCTION guard.inspect(text, text) IS
'Shows one key, or no row: its state (held: a claim is running; in_doubt: the lease ended without a response;
completed; expired: completed and past its life), claim, lease and the stored response without its body.';
