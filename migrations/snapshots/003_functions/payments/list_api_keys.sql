-- Lists the api keys, never anything that could be sent as one.
CREATE OR REPLACE FUNCTION payments.list_api_keys(p_merchant text DEFAULT NULL)
RETURNS TABLE (
    key_id     text,
    merchant   text,
    label      text,
    created_at timestamptz,
    revoked_at timestamptz
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY
    SELECT left(encode(a.key_hash, 'hex'), 16), a.merchant, a.label, a.created_at, a.revoked_at
      FROM payments.api_keys AS a
     WHERE p_merchant IS NULL OR a.merchant = p_merchant
     ORDER BY a.merchant, a.created_at, a.key_hash;
END;
$function$;

COMMENT ON FUNCTION payments.list_api_keys(text) IS
'The api keys of a merchant, or all. key_id, the first 16 hexadecimal digits of the key''s SHA-256, names a key in the
server''s log and to revoke_api_key; the key itself cannot be found out from it.';
