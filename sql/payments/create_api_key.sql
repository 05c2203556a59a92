-- Stores a new api key's hash. Not granted to the server: an operator's call.
CREATE OR REPLACE FUNCTION payments.create_api_key(p_key_hash bytea, p_merchant text, p_label text DEFAULT '')
RETURNS boolean
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    -- webhook is the scope of notifications: an api key must never reach it.
    IF p_merchant IS NULL OR char_length(p_merchant) NOT BETWEEN 1 AND 255 OR p_merchant = 'webhook' THEN
        RAISE EXCEPTION 'p_merchant must have 1 to 255 characters and not be webhook' USING ERRCODE = 'IK014';
    END IF;
    INSERT INTO payments.api_keys (key_hash, merchant, label, created_at)
    VALUES (p_key_hash, p_merchant, p_label, v_now)
    ON CONFLICT (key_hash) DO NOTHING;
    RETURN FOUND;
END;
$function$;

COMMENT ON FUNCTION payments.create_api_key(bytea, text, text) IS
'Stores the SHA-256 of a new api key for a merchant. Returns false, and changes nothing, when the key exists already.
Raises IK014 for a name that no merchant can have.';
