-- The one place that says which columns of a refund leave the database.
CREATE OR REPLACE FUNCTION payments.view_refund(p_refund payments.refunds)
RETURNS payments.refund_view
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_charge payments.charges;
BEGIN
    SELECT * INTO STRICT v_charge FROM payments.charges AS c WHERE c.charge_id = p_refund.charge_id;
    RETURN ROW(
        p_refund.refund_id, p_refund.order_id, p_refund.charge_id, v_charge.provider, p_refund.amount,
        p_refund.currency, p_refund.status, p_refund.trade_no, p_refund.failure_code, p_refund.failure_message,
        p_refund.created_at, p_refund.updated_at, v_charge.trade_no, v_charge.attempt,
        v_charge.amount)::payments.refund_view;
END;
$function$;

COMMENT ON FUNCTION payments.view_refund(payments.refunds) IS 'Internal: a refund as its merchant may see it.';
