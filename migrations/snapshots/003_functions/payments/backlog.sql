-- Counts what waits: for the reconciler, for the outbox's delivery, for a person.
CREATE OR REPLACE FUNCTION payments.backlog()
RETURNS TABLE (
    due_charges       bigint,
    oldest_due_charge timestamptz,
    due_refunds       bigint,
    oldest_due_refund timestamptz,
    undelivered       bigint,
    oldest_effect     timestamptz,
    open_cases        bigint,
    oldest_case       timestamptz
)
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    SELECT count(*), min(c.due_at) INTO due_charges, oldest_due_charge
      FROM payments.charges AS c WHERE c.due_at <= v_now;
    SELECT count(*), min(r.due_at) INTO due_refunds, oldest_due_refund
      FROM payments.refunds AS r WHERE r.due_at <= v_now;
    SELECT count(*), min(e.created_at) INTO undelivered, oldest_effect
      FROM payments.outbox AS e WHERE e.delivered_at IS NULL;
    SELECT count(*), min(s.opened_at) INTO open_cases, oldest_case
      FROM payments.cases AS s WHERE s.resolved_at IS NULL;
    RETURN NEXT;
END;
$function$;

COMMENT ON FUNCTION payments.backlog() IS
'One row: how many charges and refunds are past the time of their next inquiry and since when, how many effects wait in
the outbox and since when, how many cases wait for a person and since when. For operators and a once-a-minute metric.';
