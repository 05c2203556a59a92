-- Finds what carries a number: ours, a provider's, or a client's key. Only
-- orders, charges and refunds have an index on theirs: this reads all charges,
-- refunds and open cases.
CREATE OR REPLACE FUNCTION payments.operator_find(p_text text, p_limit int DEFAULT 100)
RETURNS TABLE (
    kind     text,
    id       text,
    order_id text,
    scope    text,
    key      text,
    provider text,
    trade_no text,
    status   text,
    amount   bigint,
    currency text,
    at       timestamptz
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY
    SELECT s.kind, s.id, s.order_id, s.scope, s.key, s.provider, s.trade_no, s.status, s.amount, s.currency, s.at
      FROM (SELECT 1, 'order', o.order_id, o.order_id, o.merchant, NULL, NULL, NULL, o.status, o.amount, o.currency,
                   o.created_at
              FROM payments.orders AS o
             WHERE o.order_id = p_text
            UNION ALL
            SELECT 2, 'charge', c.charge_id, c.order_id, c.merchant, c.idempotency_key, c.provider, c.trade_no, c.status,
                   c.amount, c.currency, c.created_at
              FROM payments.charges AS c
             WHERE p_text IN (c.charge_id, c.trade_no, c.idempotency_key)
            UNION ALL
            SELECT 3, 'refund', r.refund_id, r.order_id, r.merchant, r.idempotency_key, c.provider, r.trade_no, r.status,
                   r.amount, r.currency, r.created_at
              FROM payments.refunds AS r
              JOIN payments.charges AS c ON c.charge_id = r.charge_id
             WHERE p_text IN (r.refund_id, r.trade_no, r.idempotency_key)
            UNION ALL
            SELECT 4, 'case', t.case_id::text, t.order_id, NULL, NULL, NULL, t.detail ->> 'trade_no', t.kind, NULL, NULL,
                   t.opened_at
              FROM payments.cases AS t
             WHERE p_text IN (t.order_id, t.detail ->> 'trade_no') AND t.resolved_at IS NULL
           ) AS s (place, kind, id, order_id, scope, key, provider, trade_no, status, amount, currency, at)
     ORDER BY s.place, s.at DESC, s.id
     LIMIT p_limit;
END;
$function$;

COMMENT ON FUNCTION payments.operator_find(text, int) IS
'For operators: orders, charges, refunds and open cases that carry a number: the order''s, the charge''s, the refund''s, the
provider''s, or the idempotency key that started them. Reads all charges and refunds.';
