-- An order in its present state, for its merchant only.
CREATE OR REPLACE FUNCTION payments.get_order(p_merchant text, p_order_id text)
RETURNS TABLE (
    order_id       text,
    amount         bigint,
    currency       text,
    status         text,
    paid_charge_id text,
    created_at     timestamptz,
    updated_at     timestamptz
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    RETURN QUERY
    SELECT o.order_id, o.amount, o.currency, o.status, o.paid_charge_id, o.created_at, o.updated_at
      FROM payments.orders AS o
     WHERE o.order_id = p_order_id AND o.merchant = p_merchant;
END;
$function$;

COMMENT ON FUNCTION payments.get_order(text, text) IS
'The order as it is now; no row when it does not exist or belongs to another merchant.';
