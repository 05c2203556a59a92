-- How long the reconciler waits before it asks again. Doubt is asked about
-- soon, since a customer waits for the answer; a buyer may take hours to pay.
CREATE OR REPLACE FUNCTION payments.inquiry_wait(p_inquiries int, p_pending boolean)
RETURNS interval
LANGUAGE plpgsql
IMMUTABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF p_pending THEN
        RETURN least(interval '1 minute' * pow(2, least(p_inquiries, 20)), interval '1 day');
    END IF;
    RETURN least(interval '2 seconds' * pow(2, least(p_inquiries, 20)), interval '1 hour');
END;
$function$;

COMMENT ON FUNCTION payments.inquiry_wait(int, boolean) IS
'Internal: the wait before the next inquiry, given how many there were: in doubt 2 seconds, doubled each time, an hour at
the most; pending, that is when the buyer has still to pay, a minute, doubled each time, a day at the most.';
