-- Locks the stock of an order's items, always in the order of the sku, so that
-- two orders over the same goods never wait for each other in a circle.
CREATE OR REPLACE FUNCTION payments.lock_stock(p_order_id text)
RETURNS void
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM
       FROM payments.inventory AS n
      WHERE n.sku IN (SELECT i.sku FROM payments.order_items AS i WHERE i.order_id = p_order_id)
      ORDER BY n.sku
        FOR NO KEY UPDATE;
END;
$function$;

COMMENT ON FUNCTION payments.lock_stock(text) IS
'Internal: locks the stock of an order''s items until the transaction ends.';
