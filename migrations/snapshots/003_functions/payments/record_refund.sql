-- Records a refund that a provider reports: one of ours, or one that was made
-- at the provider, past us.
--
-- The caller has locked the order; the charge has succeeded.
CREATE OR REPLACE FUNCTION payments.record_refund(
    p_order_id       text,
    p_charge_id      text,
    p_event          text,
    p_refund_id      text,
    p_refunded       bigint,
    p_refunded_total bigint,
    p_code           text
)
RETURNS void
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now    timestamptz := clock_timestamp();
    v_order  payments.orders;
    v_known  bigint;
    v_amount bigint;
    v_status text := CASE p_event WHEN 'refund_failed' THEN 'failed' ELSE 'succeeded' END;
BEGIN
    SELECT * INTO STRICT v_order FROM payments.orders AS o WHERE o.order_id = p_order_id;
    IF v_order.paid_charge_id IS DISTINCT FROM p_charge_id THEN
        -- The refund of a second payment: it settles that case and is no
        -- refund of what the order bought.
        UPDATE payments.cases AS c
           SET resolved_at = v_now
         WHERE c.kind = 'second_payment' AND c.order_id = p_order_id AND c.charge_id = p_charge_id
           AND c.resolved_at IS NULL;
        INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
        VALUES (p_order_id, p_charge_id, 'second_payment_refunded', jsonb_build_object('refund_id', p_refund_id), v_now);
        RETURN;
    END IF;

    IF NOT EXISTS (SELECT FROM payments.refunds AS r WHERE r.refund_id = p_refund_id AND r.order_id = p_order_id) THEN
        SELECT coalesce(sum(r.amount), 0)::bigint INTO v_known
          FROM payments.refunds AS r
         WHERE r.order_id = p_order_id AND r.status <> 'failed';
        v_amount := least(
            CASE
                WHEN p_event = 'refund_full' THEN v_order.amount - v_known
                WHEN p_refunded IS NOT NULL THEN p_refunded
                ELSE p_refunded_total - v_known
            END,
            v_order.amount - v_known);
        IF p_event = 'refund_failed' OR coalesce(v_amount, 0) <= 0 THEN
            -- Nothing was given back, or what was is known in full already.
            RETURN;
        END IF;
        INSERT INTO payments.refunds (
            refund_id, order_id, charge_id, merchant, idempotency_key, fence, amount, currency, status,
            due_at, created_at, updated_at)
        VALUES (
            p_refund_id, p_order_id, p_charge_id, v_order.merchant, '', 0, v_amount, v_order.currency,
            'processing', v_now, v_now, v_now);
    END IF;
    PERFORM payments.advance_refund(
        p_merchant => v_order.merchant, p_refund_id => p_refund_id, p_status => v_status, p_trade_no => NULL,
        p_failure_code => p_code, p_failure_message => NULL, p_completes => false);
END;
$function$;

COMMENT ON FUNCTION payments.record_refund(text, text, text, text, bigint, bigint, text) IS
'Internal: records a refund that a provider reports, and moves the order to partially_refunded or refunded.';
