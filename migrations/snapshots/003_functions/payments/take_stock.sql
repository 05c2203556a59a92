-- Turns an order's reservation into a sale. Items whose stock was given back
-- meanwhile are taken from what is free; false when that is too little.
-- Locks: the items' stock, in the order of their sku.
CREATE OR REPLACE FUNCTION payments.take_stock(p_order_id text)
RETURNS boolean
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now timestamptz;
BEGIN
    IF NOT payments.reserve_stock(p_order_id => p_order_id) THEN
        RETURN false;
    END IF;
    IF NOT EXISTS (SELECT FROM payments.order_items AS i WHERE i.order_id = p_order_id AND i.stock = 'reserved') THEN
        RETURN true;
    END IF;
    PERFORM payments.lock_stock(p_order_id => p_order_id);
    v_now := clock_timestamp();
    UPDATE payments.inventory AS n
       SET on_hand = n.on_hand - i.quantity, reserved = n.reserved - i.quantity, updated_at = v_now
      FROM payments.order_items AS i
     WHERE i.order_id = p_order_id AND i.stock = 'reserved' AND n.sku = i.sku;
    UPDATE payments.order_items AS i SET stock = 'taken' WHERE i.order_id = p_order_id AND i.stock = 'reserved';
    RETURN true;
END;
$function$;

COMMENT ON FUNCTION payments.take_stock(text) IS
'Internal: sells the items of an order, once; false when stock that was given back is gone. The caller has locked the order.';
