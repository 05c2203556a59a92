-- A charge that is stored twice.
CREATE FUNCTION payments.store_again()
RETURNS trigger
LANGUAGE plpgsql
AS $function$
BEGIN
    NEW.charge_id := NEW.charge_id || '-again';
    IF NEW.charge_id NOT LIKE '%-again-again' THEN
        INSERT INTO payments.charges SELECT (NEW).*;
    END IF;
    RETURN NULL;
END;
$function$;
CREATE TRIGGER store_again AFTER INSERT ON payments.charges FOR EACH ROW EXECUTE FUNCTION payments.store_again();
