-- The least that a durable table can do for the guard's bytes, and the rows of
-- a charge without its key.
CREATE SCHEMA floor;

CREATE TABLE floor.keys (LIKE guard.idempotency_keys, PRIMARY KEY (scope, key)) WITH (fillfactor = 70);

CREATE TABLE floor.orders (LIKE payments.orders INCLUDING ALL) WITH (fillfactor = 80);
CREATE TABLE floor.charges (LIKE payments.charges INCLUDING ALL) WITH (fillfactor = 70);
ALTER TABLE floor.charges ADD FOREIGN KEY (order_id) REFERENCES floor.orders (order_id);
CREATE TABLE floor.journal (LIKE payments.journal INCLUDING ALL);
CREATE TABLE floor.outbox (LIKE payments.outbox INCLUDING ALL);

-- The rows of payments.begin_charge without a key.
CREATE FUNCTION floor.begin_rows(p_merchant text, p_charge_id text, p_order_id text)
RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO floor.orders (order_id, merchant, amount, currency, status, created_at, updated_at)
    VALUES (p_order_id, p_merchant, 1000, 'CNY', 'processing', v_now, v_now);
    INSERT INTO floor.charges (charge_id, order_id, merchant, idempotency_key, fence, provider, method, amount,
                               currency, attempt, status, due_at, created_at, updated_at)
    VALUES (p_charge_id, p_order_id, p_merchant, p_order_id, 0, 'instant', '', 1000, 'CNY', 1, 'processing',
            v_now + interval '1 minute', v_now, v_now);
    INSERT INTO floor.journal (order_id, charge_id, event, detail, at)
    VALUES (p_order_id, p_charge_id, 'charge_started', '{"provider": "instant", "attempt": 1}', v_now);
END;
$function$;

-- The rows of payments.finish_charge, of a charge that succeeded, without a key.
CREATE FUNCTION floor.finish_rows(p_charge_id text, p_order_id text)
RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    UPDATE floor.charges SET status = 'succeeded', trade_no = 'trade', due_at = NULL, updated_at = v_now
     WHERE charge_id = p_charge_id;
    UPDATE floor.orders SET status = 'paid', paid_charge_id = p_charge_id, updated_at = v_now
     WHERE order_id = p_order_id;
    INSERT INTO floor.journal (order_id, charge_id, event, detail, at)
    VALUES (p_order_id, p_charge_id, 'charge_succeeded', '{"trade_no": "trade"}', v_now);
    INSERT INTO floor.outbox (order_id, kind, reference, payload, created_at, due_at)
    VALUES (p_order_id, 'order_confirmation', '',
            jsonb_build_object('order_id', p_order_id, 'charge_id', p_charge_id, 'amount', 1000, 'currency', 'CNY'),
            v_now, v_now);
END;
$function$;
