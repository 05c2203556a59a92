-- Takes effects for delivery. One that is not marked delivered comes back
-- after a growing wait: 10 seconds, doubled each time, an hour at the most.
-- Locks: the rows it takes, until the transaction ends; skips locked ones, so
-- that several servers deliver side by side.
CREATE OR REPLACE FUNCTION payments.claim_outbox(p_batch int DEFAULT 20)
RETURNS TABLE (
    entry_id  bigint,
    order_id  text,
    kind      text,
    reference text,
    payload   jsonb,
    attempts  int
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
    RETURN QUERY
    UPDATE payments.outbox AS o
       SET attempts = o.attempts + 1,
           due_at = v_now + least(interval '10 seconds' * pow(2, least(o.attempts, 20)), interval '1 hour')
      FROM (SELECT e.entry_id
              FROM payments.outbox AS e
             WHERE e.delivered_at IS NULL AND e.due_at <= v_now
             ORDER BY e.due_at
             LIMIT p_batch
               FOR UPDATE SKIP LOCKED) AS due
     WHERE o.entry_id = due.entry_id
    RETURNING o.entry_id, o.order_id, o.kind, o.reference, o.payload, o.attempts;
END;
$function$;

COMMENT ON FUNCTION payments.claim_outbox(int) IS
'Takes at most p_batch effects for delivery; call outbox_delivered for each that its receiver took. The others come back
after 10 seconds, doubled each time, an hour at the most. Deliver entry_id along: it identifies the effect.';
