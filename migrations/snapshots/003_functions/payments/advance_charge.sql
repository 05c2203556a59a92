-- Moves a charge, and with it its order, forward; never backward. Returns the
-- charge as it then is.
--
-- Locks: the order, then the charge, then stock. Whoever has a key locks it
-- before this.
CREATE OR REPLACE FUNCTION payments.advance_charge(
    p_merchant        text,
    p_charge_id       text,
    p_status          text,
    p_trade_no        text,
    p_next_action     jsonb,
    p_failure_code    text,
    p_failure_message text,
    p_completes       boolean
)
RETURNS payments.charges
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now    timestamptz;
    v_order  payments.orders;
    v_charge payments.charges;
BEGIN
    SELECT o.* INTO v_order
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
           trade_no = coalesce(p_trade_no, c.trade_no),
           next_action = coalesce(p_next_action, c.next_action),
           failure_kind = CASE p_status WHEN 'failed' THEN 'refused' END,
           failure_code = CASE p_status WHEN 'failed' THEN p_failure_code END,
           failure_message = CASE p_status WHEN 'failed' THEN p_failure_message END,
           due_at = CASE
               WHEN NOT p_completes THEN c.due_at
               WHEN p_status = 'pending' THEN v_now + payments.inquiry_wait(c.inquiries, true)
           END,
           updated_at = v_now
     WHERE c.charge_id = p_charge_id
       AND payments.charge_rank(c.status) < payments.charge_rank(p_status)
    RETURNING c.* INTO v_charge;

    IF NOT FOUND THEN
        SELECT * INTO STRICT v_charge FROM payments.charges AS c WHERE c.charge_id = p_charge_id;
        IF p_completes AND v_charge.status = p_status THEN
            UPDATE payments.charges AS c
               SET due_at = CASE p_status WHEN 'pending' THEN v_now + payments.inquiry_wait(c.inquiries, true) END
             WHERE c.charge_id = p_charge_id;
        END IF;
        RETURN v_charge;
    END IF;

    IF p_status = 'succeeded' THEN
        PERFORM payments.pay_order(p_order => v_order, p_charge => v_charge);
    ELSIF p_status = 'failed' THEN
        PERFORM payments.give_back_stock(p_order_id => v_order.order_id);
    END IF;

    INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
    VALUES (v_order.order_id, p_charge_id, 'charge_' || p_status,
            jsonb_strip_nulls(jsonb_build_object('trade_no', p_trade_no, 'failure_code', p_failure_code)), v_now);
    RETURN v_charge;
END;
$function$;

COMMENT ON FUNCTION payments.advance_charge(text, text, text, text, jsonb, text, text, boolean) IS
'Internal: moves a charge and its order forward and journals it. p_completes: the caller completes the key in the same
transaction, or there is none, so that nothing of it is left to the reconciler. Raises IK101 for an unknown charge.';
