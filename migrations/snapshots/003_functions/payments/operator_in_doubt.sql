-- Lists charges and refunds that nobody has ended and nobody is at work on.
CREATE OR REPLACE FUNCTION payments.operator_in_doubt(p_limit int DEFAULT 100)
RETURNS TABLE (
    kind         text,
    id           text,
    order_id     text,
    scope        text,
    key          text,
    provider     text,
    amount       bigint,
    currency     text,
    status       text,
    failure_code text,
    since        timestamptz,
    due_at       timestamptz,
    inquiries    int
)
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    RETURN QUERY
    SELECT s.kind, s.id, s.order_id, s.scope, s.key, s.provider, s.amount, s.currency, s.status, s.failure_code, s.since,
           s.due_at, s.inquiries
      FROM (SELECT 'charge', c.charge_id, c.order_id, c.merchant, c.idempotency_key, c.provider, c.amount, c.currency,
                   c.status, c.failure_code, c.created_at, c.due_at, c.inquiries
              FROM payments.charges AS c
             WHERE c.due_at IS NOT NULL AND c.status <> 'pending'
            UNION ALL
            SELECT 'refund', r.refund_id, r.order_id, r.merchant, r.idempotency_key, c.provider, r.amount, r.currency,
                   r.status, r.failure_code, r.created_at, r.due_at, r.inquiries
              FROM payments.refunds AS r
              JOIN payments.charges AS c ON c.charge_id = r.charge_id
             WHERE r.due_at IS NOT NULL AND r.status <> 'pending'
           ) AS s (kind, id, order_id, scope, key, provider, amount, currency, status, failure_code, since, due_at, inquiries)
     WHERE NOT EXISTS (SELECT FROM guard.inspect(p_scope => s.scope, p_key => s.key) AS i WHERE i.state = 'held')
     ORDER BY s.since
     LIMIT p_limit;
END;
$function$;

COMMENT ON FUNCTION payments.operator_in_doubt(int) IS
'For operators: the p_limit oldest charges and refunds in doubt: begun, without an end, and without a holder at work. due_at is
when the reconciler asks next.';
