-- Moves a refund, and with it its order, forward; never backward. Returns the
-- refund as it then is.
--
-- Locks: the order, then the refund. Whoever has a key locks it before this.
CREATE OR REPLACE FUNCTION payments.advance_refund(
    p_merchant        text,
    p_refund_id       text,
    p_status          text,
    p_trade_no        text,
    p_failure_code    text,
    p_failure_message text,
    p_completes       boolean
)
RETURNS payments.refunds
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now      timestamptz;
    v_order    payments.orders;
    v_refund   payments.refunds;
    v_refunded bigint;
BEGIN
    SELECT o.* INTO v_order
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
           trade_no = coalesce(p_trade_no, r.trade_no),
           failure_kind = CASE p_status WHEN 'failed' THEN 'refused' END,
           failure_code = CASE p_status WHEN 'failed' THEN p_failure_code END,
           failure_message = CASE p_status WHEN 'failed' THEN p_failure_message END,
           due_at = CASE
               WHEN NOT p_completes THEN r.due_at
               WHEN p_status = 'pending' THEN v_now + payments.inquiry_wait(r.inquiries, true)
           END,
           updated_at = v_now
     WHERE r.refund_id = p_refund_id
       AND payments.charge_rank(r.status) < payments.charge_rank(p_status)
    RETURNING r.* INTO v_refund;

    IF NOT FOUND THEN
        SELECT * INTO STRICT v_refund FROM payments.refunds AS r WHERE r.refund_id = p_refund_id;
        IF p_completes AND v_refund.status = p_status THEN
            UPDATE payments.refunds AS r
               SET due_at = CASE p_status WHEN 'pending' THEN v_now + payments.inquiry_wait(r.inquiries, true) END
             WHERE r.refund_id = p_refund_id;
        END IF;
        RETURN v_refund;
    END IF;

    IF p_status = 'succeeded' THEN
        SELECT sum(r.amount)::bigint INTO v_refunded
          FROM payments.refunds AS r
         WHERE r.order_id = v_order.order_id AND r.status = 'succeeded';
        UPDATE payments.orders AS o
           SET status = CASE WHEN v_refunded >= o.amount THEN 'refunded' ELSE 'partially_refunded' END,
               updated_at = v_now
         WHERE o.order_id = v_order.order_id AND o.status <> 'refunded';
        PERFORM payments.write_outbox(
            p_order_id => v_order.order_id, p_kind => 'refund_notice', p_reference => p_refund_id,
            p_payload => jsonb_build_object('order_id', v_order.order_id, 'refund_id', p_refund_id,
                                            'amount', v_refund.amount, 'currency', v_refund.currency));
    END IF;

    INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
    VALUES (v_order.order_id, v_refund.charge_id, 'refund_' || p_status,
            jsonb_strip_nulls(jsonb_build_object('refund_id', p_refund_id, 'amount', v_refund.amount,
                                                 'trade_no', p_trade_no, 'failure_code', p_failure_code)), v_now);
    RETURN v_refund;
END;
$function$;

COMMENT ON FUNCTION payments.advance_refund(text, text, text, text, text, text, boolean) IS
'Internal: moves a refund and its order forward and journals it. p_completes: the caller completes the key in the same
transaction, or there is none, so that nothing of it is left to the reconciler. Raises IK101 for an unknown refund.';
