-- Counts the keys by state. Reads the whole table: for operators and a
-- once-a-minute metric, not for requests.
CREATE OR REPLACE FUNCTION guard.stats()
RETURNS TABLE (
    total                 bigint,
    held                  bigint,
    in_doubt              bigint,
    completed             bigint,
    expired               bigint,
    oldest_expired_at     timestamptz,
    oldest_lease_past_due timestamptz
)
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    SELECT count(*),
           count(*) FILTER (WHERE s.state = 'held'),
           count(*) FILTER (WHERE s.state = 'in_doubt'),
           count(*) FILTER (WHERE s.state = 'completed'),
           count(*) FILTER (WHERE s.state = 'expired'),
           min(s.expires_at) FILTER (WHERE s.state = 'expired'),
           min(s.lease_until) FILTER (WHERE s.state = 'in_doubt')
      FROM (SELECT k.expires_at, k.lease_until,
                   guard.state(p_completed_at => k.completed_at, p_lease_until => k.lease_until,
                               p_expires_at => k.expires_at, p_now => v_now) AS state
              FROM guard.idempotency_keys AS k) AS s;
END;
$function$;

COMMENT ON FUNCTION guard.stats() IS
'One row: how many keys there are in all and by state (held, in_doubt, completed, expired and waiting for purge), when
the oldest expired one expired, and when the oldest lease ended without a response. Reads the whole table.';
