-- Ends a holder's work on a charge without a verdict of the provider. A charge that
-- a notification has decided meanwhile stays as it is.
--
-- Locks: the order, then the charge, then stock. The caller has locked the key.
CREATE OR REPLACE FUNCTION payments.settle_attempt(
    p_merchant     text,
    p_charge_id    text,
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
    v_now      timestamptz;
    v_order_id text;
BEGIN
    SELECT o.order_id INTO v_order_id
      FROM payments.charges AS c
      JOIN payments.orders AS o ON o.order_id = c.order_id
     WHERE c.charge_id = p_charge_id AND c.merchant = p_merchant
       FOR NO KEY UPDATE OF o;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'charge % of merchant % does not exist', p_charge_id, p_merchant USING ERRCODE = 'IK101';
    END IF;

    v_now := clock_timestamp();
    UPDATE payments.charges AS c
       SET status = p_status,
           failure_kind = p_failure_kind,
           failure_code = p_code,
           failure_message = p_message,
           due_at = CASE p_status WHEN 'in_doubt' THEN v_now + payments.inquiry_wait(c.inquiries, false) END,
           unanswered_at = CASE WHEN p_status = 'in_doubt' AND NOT p_answered THEN c.unanswered_at END,
           updated_at = v_now
     WHERE c.charge_id = p_charge_id
       AND c.status = 'processing';
    IF FOUND THEN
        IF p_status = 'failed' THEN
            PERFORM payments.give_back_stock(p_order_id => v_order_id);
        END IF;
        INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
        VALUES (v_order_id, p_charge_id,
                CASE p_status WHEN 'failed' THEN 'charge_released' ELSE 'charge_in_doubt' END,
                jsonb_strip_nulls(jsonb_build_object('code', p_code)), v_now);
    END IF;
END;
$function$;

COMMENT ON FUNCTION payments.settle_attempt(text, text, text, text, text, text, boolean) IS
'Internal: moves a processing charge to failed (unsent) or in_doubt and journals it. Raises IK101 for an unknown charge.';
