-- Ends an api key. Not granted to the server: an operator's call.
-- Locks: the key's row.
CREATE OR REPLACE FUNCTION payments.revoke_api_key(p_key_id text)
RETURNS TABLE (
    outcome    text,
    merchant   text,
    label      text,
    revoked_at timestamptz
)
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    IF p_key_id IS NULL OR p_key_id !~ '^[0-9a-f]{16}$' THEN
        RAISE EXCEPTION 'p_key_id must be 16 hexadecimal digits, as list_api_keys has them' USING ERRCODE = 'IK014';
    END IF;
    RETURN QUERY
    WITH known AS (
        SELECT a.key_hash, a.revoked_at
          FROM payments.api_keys AS a
         WHERE left(encode(a.key_hash, 'hex'), 16) = p_key_id
           FOR UPDATE
    )
    UPDATE payments.api_keys AS a
       SET revoked_at = coalesce(a.revoked_at, v_now)
      FROM known AS k
     WHERE a.key_hash = k.key_hash
    RETURNING CASE WHEN k.revoked_at IS NULL THEN 'revoked' ELSE 'already' END, a.merchant, a.label, a.revoked_at;
END;
$function$;

COMMENT ON FUNCTION payments.revoke_api_key(text) IS
'Revokes one api key, named as list_api_keys names it; it cannot be taken back. One row, outcome revoked or already (it was
before, at revoked_at); no row when there is no such key. A server that knows the key refuses it within 5 seconds. Raises
IK014 for what is no key id.';
