-- Puts something before a person, once per event, and into the journal.
CREATE OR REPLACE FUNCTION payments.open_case(
    p_kind      text,
    p_order_id  text,
    p_charge_id text,
    p_event_key text,
    p_detail    jsonb
)
RETURNS void
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO payments.cases (kind, order_id, charge_id, event_key, detail, opened_at)
    VALUES (p_kind, p_order_id, p_charge_id, coalesce(p_event_key, ''), p_detail, v_now)
    ON CONFLICT (kind, order_id, event_key) DO NOTHING;
    IF FOUND THEN
        INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
        VALUES (p_order_id, p_charge_id, 'case_' || p_kind, p_detail, v_now);
    END IF;
END;
$function$;

COMMENT ON FUNCTION payments.open_case(text, text, text, text, jsonb) IS
'Internal: records a case for a person, once per kind, order and event.';
