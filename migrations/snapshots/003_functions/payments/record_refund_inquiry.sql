-- Records what a reconciler found out about a refund that it took without a
-- key: a pending one, or one whose key is gone.
--
-- Locks: the order, then the refund.
CREATE OR REPLACE FUNCTION payments.record_refund_inquiry(
    p_merchant        text,
    p_refund_id       text,
    p_status          text,
    p_trade_no        text,
    p_failure_code    text,
    p_failure_message text
)
RETURNS text
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_refund payments.refunds;
BEGIN
    IF p_status IN ('pending', 'succeeded', 'failed') THEN
        v_refund := payments.advance_refund(
            p_merchant => p_merchant, p_refund_id => p_refund_id, p_status => p_status, p_trade_no => p_trade_no,
            p_failure_code => p_failure_code, p_failure_message => p_failure_message,
            p_completes => true);
        RETURN v_refund.status;
    END IF;
    IF p_status IS NULL OR p_status NOT IN ('in_doubt', 'unsent') THEN
        RAISE EXCEPTION 'p_status must be pending, succeeded, failed, unsent or in_doubt' USING ERRCODE = 'IK101';
    END IF;
    PERFORM payments.settle_refund(
        p_merchant => p_merchant, p_refund_id => p_refund_id,
        p_status => CASE p_status WHEN 'unsent' THEN 'failed' ELSE p_status END,
        p_failure_kind => CASE p_status WHEN 'unsent' THEN 'unsent' END,
        p_code => p_failure_code, p_message => p_failure_message);
    SELECT r.status INTO p_status FROM payments.refunds AS r WHERE r.refund_id = p_refund_id;
    RETURN p_status;
END;
$function$;

COMMENT ON FUNCTION payments.record_refund_inquiry(text, text, text, text, text, text) IS
'Records what the provider told about a refund that claim_due_refund gave without a fence: pending, succeeded, failed
(refused for good), unsent (the provider has no such trade: free to be tried again) or in_doubt (no answer). Forward
only; unsent and in_doubt change no pending refund. Returns the refund''s status after it. Raises IK101 for another
status or an unknown refund.';
