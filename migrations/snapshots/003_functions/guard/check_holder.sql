-- The argument checks that complete, release, extend, abandon and hold share;
-- complete calls it only when one has failed, to save the call.
CREATE OR REPLACE FUNCTION guard.check_holder(p_scope text, p_key text, p_fence bigint)
RETURNS void
LANGUAGE plpgsql
IMMUTABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF p_scope IS NULL OR char_length(p_scope) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'p_scope must have 1 to 255 characters' USING ERRCODE = 'IK001';
    END IF;
    IF p_key IS NULL OR char_length(p_key) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'p_key must have 1 to 255 characters' USING ERRCODE = 'IK002';
    END IF;
    IF p_fence IS NULL THEN
        RAISE EXCEPTION 'p_fence must be the number that claim gave' USING ERRCODE = 'IK007';
    END IF;
END;
$function$;

COMMENT ON FUNCTION guard.check_holder(text, text, bigint) IS
'Internal: raises IK001, IK002 or IK007 when the arguments cannot name a claim.';
