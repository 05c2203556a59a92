-- Finds the orders that a key charged or refunded. Keys have no index in the
-- charges, since each charge would pay for it: this reads them all.
CREATE OR REPLACE FUNCTION payments.operator_orders_of(p_scope text, p_key text)
RETURNS SETOF text
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY
    SELECT c.order_id FROM payments.charges AS c WHERE c.merchant = p_scope AND c.idempotency_key = p_key
    UNION
    SELECT r.order_id FROM payments.refunds AS r WHERE r.merchant = p_scope AND r.idempotency_key = p_key
    UNION
    SELECT j.order_id FROM payments.journal AS j WHERE p_scope = 'webhook' AND j.event = 'notified' AND j.detail ->> 'key' = p_key
    UNION
    SELECT s.order_id FROM payments.cases AS s WHERE p_scope = 'webhook' AND s.event_key = p_key;
END;
$function$;

COMMENT ON FUNCTION payments.operator_orders_of(text, text) IS
'For operators: the orders that were charged or refunded with a key, or that a notification was about. Reads all charges, refunds
and, for a notification, the journal.';
