-- Finds the charge that decides what a new claim on an order may do: the one
-- that paid it; else one that nobody has ended; else, when this key's last
-- claim was never completed, what it did. The caller holds the lock on the order.
CREATE OR REPLACE FUNCTION payments.charge_to_continue(p_order payments.orders, p_key text, p_recovered boolean)
RETURNS payments.charges
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_charge payments.charges;
BEGIN
    SELECT * INTO v_charge
      FROM payments.charges AS c
     WHERE c.order_id = p_order.order_id
       AND (c.status IN ('succeeded', 'processing', 'in_doubt')
            OR (p_recovered AND c.idempotency_key = p_key AND c.failure_kind IS DISTINCT FROM 'unsent'))
     ORDER BY (c.charge_id = p_order.paid_charge_id) DESC NULLS LAST,
              (c.status IN ('processing', 'in_doubt')) DESC,
              c.created_at DESC
     LIMIT 1
       FOR NO KEY UPDATE;
    RETURN v_charge;
END;
$function$;

COMMENT ON FUNCTION payments.charge_to_continue(payments.orders, text, boolean) IS
'Internal: the charge that a claim by this key on this order has to look at, or null.';
