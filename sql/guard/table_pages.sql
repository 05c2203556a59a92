-- How far purge has to walk; its caller has no right to ask the table itself.
CREATE OR REPLACE FUNCTION guard.table_pages()
RETURNS bigint
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN pg_relation_size('guard.idempotency_keys') / current_setting('block_size')::bigint;
END;
$function$;

COMMENT ON FUNCTION guard.table_pages() IS
'Internal: the size of the key table in pages, for the procedure purge.';
