-- Leaves the work in doubt: the lease ends, the key stays.
-- Locks: the key's row. A stale fence changes nothing.
CREATE OR REPLACE FUNCTION guard.abandon(p_scope text, p_key text, p_fence bigint)
RETURNS boolean
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_now     timestamptz := clock_timestamp();
    v_address tid;
BEGIN
    PERFORM guard.check_holder(p_scope => p_scope, p_key => p_key, p_fence => p_fence);
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        v_address := guard.holder_row(p_scope => p_scope, p_key => p_key, p_fence => p_fence);
        UPDATE guard.idempotency_keys AS k
           SET lease_until = least(k.lease_until, v_now)
         WHERE k.scope = p_scope AND k.key = p_key
           AND k.ctid = v_address;
    ELSE
        UPDATE guard.idempotency_keys AS k
           SET lease_until = least(k.lease_until, v_now)
         WHERE k.scope = p_scope AND k.key = p_key
           AND k.fence = p_fence
           AND k.completed_at IS NULL;
    END IF;
    RETURN FOUND;
END;
$function$;

COMMENT ON FUNCTION guard.abandon(text, text, bigint) IS
'Ends the lease now and keeps the key: the work is in doubt, and the next equal request claims it with
recovered = true. Returns false, and changes nothing, when the fence is stale or the key is completed or gone.
Raises IK001, IK002, IK007 for arguments out of range.';
