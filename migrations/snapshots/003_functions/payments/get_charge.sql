-- A charge in its present state, for its merchant only.
CREATE OR REPLACE FUNCTION payments.get_charge(p_merchant text, p_charge_id text)
RETURNS SETOF payments.charge_view
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    RETURN QUERY
    SELECT (payments.view_charge(c)).*
      FROM payments.charges AS c
     WHERE c.charge_id = p_charge_id AND c.merchant = p_merchant;
END;
$function$;

COMMENT ON FUNCTION payments.get_charge(text, text) IS
'The charge as it is now; no row when it does not exist or belongs to another merchant.';
