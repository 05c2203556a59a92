-- Finds the merchant of an api key.
CREATE OR REPLACE FUNCTION payments.authenticate(p_key_hash bytea)
RETURNS text
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_merchant text;
BEGIN
    SELECT a.merchant INTO v_merchant
      FROM payments.api_keys AS a
     WHERE a.key_hash = p_key_hash AND a.revoked_at IS NULL;
    RETURN v_merchant;
END;
$function$;

COMMENT ON FUNCTION payments.authenticate(bytea) IS
'The merchant whose api key has this SHA-256, or null when there is none or it was revoked.';
