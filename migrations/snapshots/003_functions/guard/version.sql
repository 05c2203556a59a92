-- Grows with every release that changes this schema; internal/guard mirrors it.
CREATE OR REPLACE FUNCTION guard.version()
RETURNS int
LANGUAGE plpgsql
IMMUTABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN 1;
END;
$function$;

COMMENT ON FUNCTION guard.version() IS
'The version of the installed guard. An install refuses to replace a newer one.';
