-- Lets a charge that succeeded pay its order, or puts it before a person when
-- the order is paid already. Two keys' charges at one provider may be one trade
-- there, since both have the order's number: then only one payment was made.
--
-- The caller has locked the order and moved the charge to succeeded.
CREATE OR REPLACE FUNCTION payments.pay_order(p_order payments.orders, p_charge payments.charges)
RETURNS void
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    IF p_order.paid_charge_id IS NOT NULL THEN
        IF EXISTS (
            SELECT FROM payments.charges AS c
             WHERE c.charge_id = p_order.paid_charge_id
               AND c.provider = p_charge.provider
               AND coalesce(nullif(c.trade_no, '') = nullif(p_charge.trade_no, ''), c.attempt = p_charge.attempt))
        THEN
            RETURN;
        END IF;
        PERFORM payments.open_case(
            p_kind => 'second_payment', p_order_id => p_order.order_id, p_charge_id => p_charge.charge_id,
            p_event_key => p_charge.charge_id,
            p_detail => jsonb_build_object('provider', p_charge.provider, 'amount', p_charge.amount,
                                           'paid_by', p_order.paid_charge_id));
        RETURN;
    END IF;

    UPDATE payments.orders AS o
       SET status = 'paid', paid_charge_id = p_charge.charge_id, updated_at = v_now
     WHERE o.order_id = p_order.order_id;
    IF p_order.status = 'closed' THEN
        PERFORM payments.open_case(
            p_kind => 'paid_after_close', p_order_id => p_order.order_id, p_charge_id => p_charge.charge_id,
            p_event_key => p_charge.charge_id, p_detail => jsonb_build_object('provider', p_charge.provider));
    END IF;
    IF NOT payments.take_stock(p_order_id => p_order.order_id) THEN
        PERFORM payments.open_case(
            p_kind => 'oversold', p_order_id => p_order.order_id, p_charge_id => p_charge.charge_id,
            p_event_key => p_charge.charge_id, p_detail => jsonb_build_object('provider', p_charge.provider));
    END IF;
    PERFORM payments.write_outbox(
        p_order_id => p_order.order_id, p_kind => 'order_confirmation', p_reference => '',
        p_payload => jsonb_build_object('order_id', p_order.order_id, 'charge_id', p_charge.charge_id,
                                        'amount', p_order.amount, 'currency', p_order.currency));
END;
$function$;

COMMENT ON FUNCTION payments.pay_order(payments.orders, payments.charges) IS
'Internal: marks an order paid by a charge, sells its stock and queues the confirmation; a second payment becomes a case.
A second charge that is the same trade at the provider is none.';
