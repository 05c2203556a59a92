-- Says which of an order's values is out of range. Called when one is, so that
-- the values that are right cost one expression.
CREATE OR REPLACE FUNCTION payments.check_order(p_order_id text, p_amount bigint, p_currency text)
RETURNS void
LANGUAGE plpgsql
IMMUTABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF p_order_id IS NULL OR char_length(p_order_id) NOT BETWEEN 1 AND 64 THEN
        RAISE EXCEPTION 'p_order_id must have 1 to 64 characters' USING ERRCODE = 'IK101';
    END IF;
    IF p_amount IS NULL OR p_amount < 1 THEN
        RAISE EXCEPTION 'p_amount must be above 0' USING ERRCODE = 'IK101';
    END IF;
    IF p_currency IS NULL OR p_currency !~ '^[A-Z]{3}$' THEN
        RAISE EXCEPTION 'p_currency must be an ISO 4217 code' USING ERRCODE = 'IK101';
    END IF;
END;
$function$;

COMMENT ON FUNCTION payments.check_order(text, bigint, text) IS
'Internal: raises IK101 for an order number, amount or currency that no order can have.';
