-- Ends a holder's work on a refund without a verdict of the provider. A refund
-- that a notification has decided meanwhile stays as it is.
--
-- Locks: the order, then the refund. The caller has locked the key.
CREATE OR REPLACE FUNCTION payments.settle_refund(
    p_merchant     text,
    p_refund_id    text,
    p_status       text,
    p_failure_kind text,
    p_code         text,
    p_message      text,
    p_answered     boolean DEFAULT false
)
RETURNS void
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now    timestamptz;
    v_refund payments.refunds;
BEGIN
    PERFORM
       FROM payments.refunds AS r
       JOIN payments.orders AS o ON o.order_id = r.order_id
      WHERE r.refund_id = p_refund_id AND r.merchant = p_merchant
        FOR NO KEY UPDATE OF o;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'refund % of merchant % does not exist', p_refund_id, p_merchant USING ERRCODE = 'IK101';
    END IF;

    v_now := clock_timestamp();
    UPDATE payments.refunds AS r
       SET status = p_status,
           failure_kind = p_failure_kind,
           failure_code = p_code,
           failure_message = p_message,
           due_at = CASE p_status WHEN 'in_doubt' THEN v_now + payments.inquiry_wait(r.inquiries, false) END,
           unanswered_at = CASE WHEN p_status = 'in_doubt' AND NOT p_answered THEN r.unanswered_at END,
           updated_at = v_now
     WHERE r.refund_id = p_refund_id
       AND r.status = 'processing'
    RETURNING r.* INTO v_refund;
    IF FOUND THEN
        INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
        VALUES (v_refund.order_id, v_refund.charge_id,
                CASE p_status WHEN 'failed' THEN 'refund_released' ELSE 'refund_in_doubt' END,
                jsonb_strip_nulls(jsonb_build_object('refund_id', p_refund_id, 'code', p_code)), v_now);
    END IF;
END;
$function$;

COMMENT ON FUNCTION payments.settle_refund(text, text, text, text, text, text, boolean) IS
'Internal: moves a processing refund to failed (unsent) or in_doubt and journals it. Raises IK101 for an unknown refund.';
