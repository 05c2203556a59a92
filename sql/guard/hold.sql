-- Fences a holder's own writes: call it first in the transaction that makes them.
-- Locks: the key's row until the transaction ends, so that no takeover can
-- slip in between the check and the writes.
CREATE OR REPLACE FUNCTION guard.hold(p_scope text, p_key text, p_fence bigint)
RETURNS boolean
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    IF (char_length(p_scope) BETWEEN 1 AND 255 AND char_length(p_key) BETWEEN 1 AND 255
        AND p_fence IS NOT NULL) IS NOT TRUE
    THEN
        PERFORM guard.check_holder(p_scope => p_scope, p_key => p_key, p_fence => p_fence);
    END IF;
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RETURN coalesce(guard.holder_row(p_scope => p_scope, p_key => p_key, p_fence => p_fence) <> '(0,0)', false);
    END IF;
    PERFORM
       FROM guard.idempotency_keys AS k
      WHERE k.scope = p_scope AND k.key = p_key
        AND k.fence = p_fence
        AND k.completed_at IS NULL
        FOR NO KEY UPDATE;
    RETURN FOUND;
END;
$function$;

COMMENT ON FUNCTION guard.hold(text, text, bigint) IS
'True when the fence is the newest and the key is not completed; nobody can take the key over until the calling
transaction ends. Call it before writing own results in the transaction that will complete, release or abandon.
Returns false when the fence is stale or the key is completed or gone. Raises IK001, IK002, IK007.';
