-- What each event does to a charge and its order. Nothing moves backward, so
-- that events may come late and in any order.
--
-- The caller has locked the order.
CREATE OR REPLACE FUNCTION payments.apply_event(
    p_order          payments.orders,
    p_charge         payments.charges,
    p_event          text,
    p_event_key      text,
    p_trade_no       text,
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
    v_now    timestamptz;
    v_status text := CASE p_event
        WHEN 'waiting' THEN 'pending'
        WHEN 'failed' THEN 'failed'
        WHEN 'closed' THEN 'failed'
        ELSE 'succeeded'
    END;
BEGIN
    PERFORM payments.advance_charge(
        p_merchant => p_order.merchant, p_charge_id => p_charge.charge_id, p_status => v_status,
        p_trade_no => p_trade_no, p_next_action => NULL, p_failure_code => coalesce(p_code, p_event),
        p_failure_message => NULL, p_completes => false);

    IF p_event IN ('refund_partial', 'refund_full', 'refund_failed') THEN
        PERFORM payments.record_refund(
            p_order_id => p_order.order_id, p_charge_id => p_charge.charge_id, p_event => p_event,
            p_refund_id => coalesce(p_refund_id, p_event_key), p_refunded => p_refunded,
            p_refunded_total => p_refunded_total, p_code => p_code);
    ELSIF p_event = 'closed' THEN
        v_now := clock_timestamp();
        UPDATE payments.orders AS o
           SET status = 'closed', updated_at = v_now
         WHERE o.order_id = p_order.order_id
           AND o.status IN ('pending', 'processing')
           AND NOT EXISTS (SELECT FROM payments.charges AS c
                            WHERE c.order_id = p_order.order_id
                              AND c.status IN ('processing', 'pending', 'in_doubt'));
        IF FOUND THEN
            INSERT INTO payments.journal (order_id, charge_id, event, at)
            VALUES (p_order.order_id, p_charge.charge_id, 'order_closed', v_now);
        END IF;
    END IF;
END;
$function$;

COMMENT ON FUNCTION payments.apply_event(payments.orders, payments.charges, text, text, text, text, bigint, bigint, text) IS
'Internal: moves a charge and its order as an event says, forward only.';
