-- The one place that says which columns of a charge leave the database.
CREATE OR REPLACE FUNCTION payments.view_charge(p_charge payments.charges)
RETURNS payments.charge_view
LANGUAGE plpgsql
IMMUTABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN ROW(
        p_charge.charge_id, p_charge.order_id, p_charge.provider, p_charge.method, p_charge.amount,
        p_charge.currency, p_charge.attempt, p_charge.status, p_charge.trade_no, p_charge.next_action,
        p_charge.failure_kind, p_charge.failure_code, p_charge.failure_message, p_charge.created_at,
        p_charge.updated_at)::payments.charge_view;
END;
$function$;

COMMENT ON FUNCTION payments.view_charge(payments.charges) IS 'Internal: a charge as its merchant may see it.';
