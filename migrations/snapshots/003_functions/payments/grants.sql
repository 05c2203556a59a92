-- PUBLIC may execute nothing here. Runs after every install, since a new
-- function starts with EXECUTE for PUBLIC.
REVOKE ALL ON ALL TABLES IN SCHEMA payments FROM PUBLIC, payonce_app;
REVOKE ALL ON ALL ROUTINES IN SCHEMA payments FROM PUBLIC, payonce_app;
REVOKE USAGE ON TYPE payments.charge_view, payments.charge_result FROM PUBLIC;
GRANT USAGE ON TYPE payments.charge_view, payments.charge_result TO payonce_app;
GRANT EXECUTE ON FUNCTION
    payments.authenticate(bytea),
    payments.begin_charge(text, text, text, bytea, text, text, text, text, bigint, text, interval, interval),
    payments.finish_charge(text, text, bigint, text, text, text, jsonb, text, text, int, jsonb, bytea),
    payments.release_charge(text, text, bigint, text, text, text),
    payments.abandon_charge(text, text, bigint, text, text, text),
    payments.get_charge(text, text),
    payments.get_order(text, text)
TO payonce_app;
