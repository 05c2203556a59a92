-- Sets how many pieces of a sku are there. Not granted to the server: an
-- operator's or a warehouse's call.
CREATE OR REPLACE FUNCTION payments.set_stock(p_sku text, p_on_hand bigint)
RETURNS void
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO payments.inventory AS n (sku, on_hand, updated_at)
    VALUES (p_sku, p_on_hand, v_now)
    ON CONFLICT (sku) DO UPDATE SET on_hand = excluded.on_hand, updated_at = excluded.updated_at;
END;
$function$;

COMMENT ON FUNCTION payments.set_stock(text, bigint) IS
'Sets the pieces of a sku that are there, reserved ones included. Fails when more are reserved than that.';
