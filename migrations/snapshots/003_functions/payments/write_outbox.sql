-- Writes an effect that the customer sees, once per order, kind and reference.
CREATE OR REPLACE FUNCTION payments.write_outbox(p_order_id text, p_kind text, p_reference text, p_payload jsonb)
RETURNS void
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO payments.outbox (order_id, kind, reference, payload, created_at, due_at)
    VALUES (p_order_id, p_kind, p_reference, p_payload, v_now, v_now)
    ON CONFLICT (order_id, kind, reference) DO NOTHING;
END;
$function$;

COMMENT ON FUNCTION payments.write_outbox(text, text, text, jsonb) IS
'Internal: queues an effect for delivery, once per order, kind and reference.';
