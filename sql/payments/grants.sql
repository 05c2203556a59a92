-- PUBLIC may execute nothing here. Runs after every install, since a new
-- function starts with EXECUTE for PUBLIC.
REVOKE ALL ON ALL TABLES IN SCHEMA payments FROM PUBLIC, payonce_app;
REVOKE ALL ON ALL ROUTINES IN SCHEMA payments FROM PUBLIC, payonce_app;
REVOKE USAGE ON TYPE payments.charge_view, payments.charge_result, payments.refund_view, payments.refund_result,
    payments.due_charge, payments.due_refund, payments.order_item, payments.operator_result FROM PUBLIC;
GRANT USAGE ON TYPE payments.charge_view, payments.charge_result, payments.refund_view, payments.refund_result,
    payments.due_charge, payments.due_refund, payments.order_item
    TO payonce_app;
GRANT EXECUTE ON FUNCTION
    payments.authenticate(bytea),
    payments.begin_charge(text, text, text, bytea, text, text, text, text, bigint, text, interval, interval, boolean, interval),
    payments.finish_charge(text, text, bigint, text, text, text, jsonb, text, text, int, jsonb, bytea),
    payments.release_charge(text, text, bigint, text, text, text),
    payments.abandon_charge(text, text, bigint, text, text, text, boolean),
    payments.begin_refund(text, text, text, bytea, text, text, text, bigint, interval, interval, boolean, interval),
    payments.finish_refund(text, text, bigint, text, text, text, text, text, int, jsonb, bytea),
    payments.release_refund(text, text, bigint, text, text, text),
    payments.abandon_refund(text, text, bigint, text, text, text, boolean),
    payments.create_order(text, text, text, bytea, text, bigint, text, payments.order_item[], int, jsonb, bytea, interval),
    payments.apply_notification(text, text, text, text, text, bigint, text, text, bigint, bigint, text, interval),
    payments.claim_due_charge(text[], interval, interval, interval, text),
    payments.record_charge_inquiry(text, text, text, text, text, text),
    payments.claim_due_refund(text[], interval, interval, interval, text),
    payments.record_refund_inquiry(text, text, text, text, text, text),
    payments.claim_outbox(int),
    payments.outbox_delivered(bigint),
    payments.get_charge(text, text),
    payments.get_order(text, text),
    payments.backlog()
TO payonce_app;
