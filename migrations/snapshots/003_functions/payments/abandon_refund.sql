-- Leaves a refund in doubt: the lease ends, the key stays.
-- Locks: the key, the order, the refund. A stale fence changes nothing.
CREATE OR REPLACE FUNCTION payments.abandon_refund(
    p_merchant  text,
    p_key       text,
    p_fence     bigint,
    p_refund_id text,
    p_code      text,
    p_message   text,
    p_answered  boolean DEFAULT false
)
RETURNS boolean
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    IF NOT guard.abandon(p_scope => p_merchant, p_key => p_key, p_fence => p_fence) THEN
        RETURN false;
    END IF;
    PERFORM payments.settle_refund(
        p_merchant => p_merchant, p_refund_id => p_refund_id, p_status => 'in_doubt',
        p_failure_kind => NULL, p_code => p_code, p_message => p_message, p_answered => p_answered);
    RETURN true;
END;
$function$;

COMMENT ON FUNCTION payments.abandon_refund(text, text, bigint, text, text, text, boolean) IS
'Records that nobody knows whether the money went back and ends the claim''s lease: the next request asks the provider
first. Returns false, and changes nothing, when the fence is stale. p_answered: the provider
answered the request to move the money, only nobody knows what that means; nothing of it is still on its way. Raises IK101 for an unknown refund.';
