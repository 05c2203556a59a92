-- Everything that the tables know of an order, in the order in which it
-- happened. A replay, a conflict and a mismatch write nothing and are not here.
CREATE OR REPLACE FUNCTION payments.order_story(p_order_id text)
RETURNS TABLE (
    at      timestamptz,
    source  text,
    event   text,
    subject text,
    detail  jsonb
)
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY
    WITH started AS (
        SELECT c.merchant AS scope, c.idempotency_key AS key, c.charge_id AS id
          FROM payments.charges AS c WHERE c.order_id = p_order_id
        UNION ALL
        SELECT r.merchant, r.idempotency_key, r.refund_id
          FROM payments.refunds AS r WHERE r.order_id = p_order_id
    ), used AS (
        SELECT s.scope, s.key, string_agg(s.id, ', ' ORDER BY s.id) AS ids FROM started AS s GROUP BY s.scope, s.key
    ), keys AS (
        SELECT u.ids, i.* FROM used AS u CROSS JOIN LATERAL guard.inspect(p_scope => u.scope, p_key => u.key) AS i
    )
    SELECT s.at, s.source, s.event, s.subject, s.detail
      FROM (SELECT 1, j.entry_id, j.at, 'journal', j.event, coalesce(j.detail ->> 'refund_id', j.charge_id, j.order_id), j.detail
              FROM payments.journal AS j WHERE j.order_id = p_order_id
            UNION ALL
            SELECT 0, 0, k.created_at, 'key', 'key_claimed', k.ids,
                   jsonb_build_object('scope', k.scope, 'key', k.key, 'request', k.request_path)
              FROM keys AS k
            UNION ALL
            SELECT 0, 0, k.locked_at, 'key', 'key_taken_over', k.ids, jsonb_build_object('key', k.key, 'fence', k.fence)
              FROM keys AS k WHERE k.locked_at > k.created_at
            UNION ALL
            SELECT 2, 0, k.completed_at, 'key', 'response_stored', k.ids,
                   jsonb_build_object('key', k.key, 'status', k.response_status, 'bytes', k.response_bytes)
              FROM keys AS k WHERE k.completed_at IS NOT NULL
            UNION ALL
            SELECT 2, 0, k.lease_until, 'key', 'lease_ended', k.ids, jsonb_build_object('key', k.key)
              FROM keys AS k WHERE k.state = 'in_doubt'
            UNION ALL
            SELECT 2, e.entry_id, e.created_at, 'outbox', e.kind || '_written', e.reference, '{}'::jsonb
              FROM payments.outbox AS e WHERE e.order_id = p_order_id
            UNION ALL
            SELECT 3, e.entry_id, e.delivered_at, 'outbox', e.kind || '_delivered', e.reference,
                   jsonb_build_object('attempts', e.attempts)
              FROM payments.outbox AS e WHERE e.order_id = p_order_id AND e.delivered_at IS NOT NULL
           ) AS s (place, entry, at, source, event, subject, detail)
     ORDER BY s.at, s.place, s.entry;
END;
$function$;

COMMENT ON FUNCTION payments.order_story(text) IS
'For operators: what happened to an order, oldest first: its journal, the claims and stored responses of its keys as far as
they are not purged, and its effects. source is journal, key or outbox; subject names the charge or refund.';
