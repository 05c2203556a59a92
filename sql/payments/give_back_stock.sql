-- Frees an order's reservation, unless another charge on it has not ended yet.
-- Locks: the items' stock, in the order of their sku.
CREATE OR REPLACE FUNCTION payments.give_back_stock(p_order_id text)
RETURNS void
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now timestamptz;
BEGIN
    IF NOT EXISTS (SELECT FROM payments.order_items AS i WHERE i.order_id = p_order_id AND i.stock = 'reserved')
        OR EXISTS (SELECT FROM payments.charges AS c
                    WHERE c.order_id = p_order_id AND c.status IN ('processing', 'pending', 'in_doubt'))
    THEN
        RETURN;
    END IF;
    PERFORM payments.lock_stock(p_order_id => p_order_id);
    v_now := clock_timestamp();
    UPDATE payments.inventory AS n
       SET reserved = n.reserved - i.quantity, updated_at = v_now
      FROM payments.order_items AS i
     WHERE i.order_id = p_order_id AND i.stock = 'reserved' AND n.sku = i.sku;
    UPDATE payments.order_items AS i SET stock = 'free' WHERE i.order_id = p_order_id AND i.stock = 'reserved';
END;
$function$;

COMMENT ON FUNCTION payments.give_back_stock(text) IS
'Internal: frees the reserved items of an order when none of its charges is open. The caller has locked the order.';
