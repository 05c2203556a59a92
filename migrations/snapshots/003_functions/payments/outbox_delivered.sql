-- Marks an effect as delivered.
CREATE OR REPLACE FUNCTION payments.outbox_delivered(p_entry_id bigint)
RETURNS boolean
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    UPDATE payments.outbox AS o SET delivered_at = v_now WHERE o.entry_id = p_entry_id AND o.delivered_at IS NULL;
    RETURN FOUND;
END;
$function$;

COMMENT ON FUNCTION payments.outbox_delivered(bigint) IS
'Marks an effect as delivered; false when it is not there or was delivered before.';
