-- Holds a claim longer.
-- Locks: the key's row. A stale fence changes nothing.
CREATE OR REPLACE FUNCTION guard.extend(p_scope text, p_key text, p_fence bigint, p_lease interval)
RETURNS boolean
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_now     timestamptz;
    v_address tid;
BEGIN
    PERFORM guard.check_holder(p_scope => p_scope, p_key => p_key, p_fence => p_fence);
    IF p_lease IS NULL OR p_lease <= interval '0' OR p_lease > interval '1 day' THEN
        RAISE EXCEPTION 'p_lease must be longer than 0 and at most 1 day' USING ERRCODE = 'IK005';
    END IF;
    -- Whatever there is to wait for, wait first: the lease counts from now on.
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        v_address := guard.holder_row(p_scope => p_scope, p_key => p_key, p_fence => p_fence);
        v_now := clock_timestamp();
        UPDATE guard.idempotency_keys AS k
           SET lease_until = v_now + p_lease
         WHERE k.scope = p_scope AND k.key = p_key
           AND k.ctid = v_address;
        RETURN FOUND;
    END IF;
    IF NOT guard.hold(p_scope => p_scope, p_key => p_key, p_fence => p_fence) THEN
        RETURN false;
    END IF;
    v_now := clock_timestamp();
    UPDATE guard.idempotency_keys AS k
       SET lease_until = v_now + p_lease
     WHERE k.scope = p_scope AND k.key = p_key;
    RETURN FOUND;
END;
$function$;

COMMENT ON FUNCTION guard.extend(text, text, bigint, interval) IS
'Makes the claim''s lease end p_lease (above 0, at most 1 day) from now. Also after the lease ran out, as long as nobody
took the key over. Returns false, and changes nothing, when the fence is stale or the key is completed or gone: stop
working then. Raises IK001, IK002, IK005, IK007 for arguments out of range.';
