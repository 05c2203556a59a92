-- A holder usually ends long before its lease does, so a client is asked to
-- come back after a second at the latest.
CREATE OR REPLACE FUNCTION guard.retry_after_ms(p_lease_left interval)
RETURNS int
LANGUAGE plpgsql
IMMUTABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN least(greatest(ceil(extract(epoch FROM p_lease_left) * 1000), 1), 1000)::int;
END;
$function$;

COMMENT ON FUNCTION guard.retry_after_ms(interval) IS
'Internal: milliseconds after which a client in conflict should ask again, 1 to 1000, given what is left of the lease.';
