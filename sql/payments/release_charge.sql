-- Ends an attempt whose money surely did not move: the key is free again.
-- Locks: the key, the order, the charge. A stale fence changes nothing.
CREATE OR REPLACE FUNCTION payments.release_charge(
    p_merchant        text,
    p_key             text,
    p_fence           bigint,
    p_charge_id       text,
    p_failure_code    text,
    p_failure_message text
)
RETURNS boolean
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    IF NOT guard.release(p_scope => p_merchant, p_key => p_key, p_fence => p_fence) THEN
        RETURN false;
    END IF;
    PERFORM payments.settle_attempt(
        p_merchant => p_merchant, p_charge_id => p_charge_id, p_status => 'failed', p_failure_kind => 'unsent',
        p_code => p_failure_code, p_message => p_failure_message);
    RETURN true;
END;
$function$;

COMMENT ON FUNCTION payments.release_charge(text, text, bigint, text, text, text) IS
'Records that an attempt surely moved no money and deletes its key: a retry starts anew. Returns false, and changes
nothing, when the fence is stale. Raises IK101 for an unknown charge.';
