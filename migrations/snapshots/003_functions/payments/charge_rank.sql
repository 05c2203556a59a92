-- How far along a charge is. Success outranks failure: a provider that
-- reports a payment is right even after it reported a refusal.
CREATE OR REPLACE FUNCTION payments.charge_rank(p_status text)
RETURNS int
LANGUAGE plpgsql
IMMUTABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN CASE p_status
        WHEN 'processing' THEN 0
        WHEN 'in_doubt' THEN 0
        WHEN 'pending' THEN 1
        WHEN 'failed' THEN 2
        WHEN 'succeeded' THEN 3
    END;
END;
$function$;

COMMENT ON FUNCTION payments.charge_rank(text) IS
'Internal: the order in which a charge''s status may move, forward only.';
