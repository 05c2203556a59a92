-- The journal is evidence: nobody changes it, the tables' owner included.
CREATE OR REPLACE FUNCTION payments.refuse_journal_change()
RETURNS trigger
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RAISE EXCEPTION 'payments.journal is append-only: % refused', tg_op USING ERRCODE = 'IK102';
END;
$function$;

COMMENT ON FUNCTION payments.refuse_journal_change() IS 'Trigger: raises IK102 on UPDATE, DELETE and TRUNCATE of the journal.';

CREATE OR REPLACE TRIGGER journal_is_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON payments.journal
    FOR EACH STATEMENT EXECUTE FUNCTION payments.refuse_journal_change();
