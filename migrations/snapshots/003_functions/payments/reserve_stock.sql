-- Reserves an order's free items, all or none. Returns false when one is short.
-- Locks: the items' stock, in the order of their sku.
CREATE OR REPLACE FUNCTION payments.reserve_stock(p_order_id text)
RETURNS boolean
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now   timestamptz;
    v_short boolean;
BEGIN
    IF NOT EXISTS (SELECT FROM payments.order_items AS i WHERE i.order_id = p_order_id AND i.stock = 'free') THEN
        RETURN true;
    END IF;
    PERFORM payments.lock_stock(p_order_id => p_order_id);
    SELECT coalesce(bool_or(n.sku IS NULL OR n.on_hand - n.reserved < i.quantity), false) INTO v_short
      FROM payments.order_items AS i
      LEFT JOIN payments.inventory AS n ON n.sku = i.sku
     WHERE i.order_id = p_order_id AND i.stock = 'free';
    IF v_short THEN
        RETURN false;
    END IF;
    v_now := clock_timestamp();
    UPDATE payments.inventory AS n
       SET reserved = n.reserved + i.quantity, updated_at = v_now
      FROM payments.order_items AS i
     WHERE i.order_id = p_order_id AND i.stock = 'free' AND n.sku = i.sku;
    UPDATE payments.order_items AS i SET stock = 'reserved' WHERE i.order_id = p_order_id AND i.stock = 'free';
    RETURN true;
END;
$function$;

COMMENT ON FUNCTION payments.reserve_stock(text) IS
'Internal: reserves the free items of an order, all or none; false when one is short. The caller has locked the order.';
