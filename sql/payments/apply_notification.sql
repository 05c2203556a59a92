-- Applies a provider's notification in one round trip: claims the event, moves
-- charge, refund and order, completes the event, all in one transaction. A
-- second delivery of the event waits for the first and is a duplicate; one
-- that fails leaves no trace, so that the redelivery does the work.
--
-- Locks, in this order: the event's key, the order, its charges and refunds,
-- stock.
CREATE OR REPLACE FUNCTION payments.apply_notification(
    p_provider       text,
    p_event_key      text,
    p_event          text,
    p_order_id       text,
    p_trade_no       text,
    p_amount         bigint,
    p_currency       text,
    p_refund_id      text,
    p_refunded       bigint,
    p_refunded_total bigint,
    p_code           text,
    p_ttl            interval DEFAULT '30 days'
)
RETURNS text
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_claim  guard.result;
    v_order  payments.orders;
    v_charge payments.charges;
    v_kind   text;
    v_now    timestamptz;
BEGIN
    IF p_event IS NULL OR p_event NOT IN (
        'waiting', 'paid', 'finished', 'failed', 'closed', 'refund_partial', 'refund_full', 'refund_failed')
    THEN
        RAISE EXCEPTION 'p_event is not one of the events of a notification' USING ERRCODE = 'IK101';
    END IF;

    -- The event is its key: what differs between two deliveries (times,
    -- signatures) is no part of it.
    v_claim := guard.claim(p_scope => 'webhook', p_key => p_event_key, p_request_path => 'POST /webhooks/' || p_provider,
                           p_request_hash => sha256(convert_to(p_event_key, 'UTF8')), p_ttl => p_ttl);
    IF v_claim.outcome = 'replay' THEN
        RETURN 'duplicate';
    END IF;
    IF v_claim.outcome <> 'claimed' THEN
        RETURN v_claim.outcome;
    END IF;

    SELECT * INTO v_order FROM payments.orders AS o WHERE o.order_id = p_order_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        v_kind := 'unknown_order';
    ELSE
        SELECT * INTO v_charge
          FROM payments.charges AS c
         WHERE c.order_id = p_order_id AND c.provider = p_provider
         ORDER BY (c.status = 'succeeded') DESC, (c.status <> 'failed') DESC, c.created_at DESC
         LIMIT 1;
        IF NOT FOUND THEN
            v_kind := 'unknown_charge';
        ELSIF p_amount <> v_order.amount OR p_currency <> v_order.currency
            OR (p_event = 'paid' AND (p_amount IS NULL OR p_currency IS NULL))
        THEN
            v_kind := 'amount_mismatch';
        END IF;
    END IF;

    IF v_kind IS NULL THEN
        v_now := clock_timestamp();
        INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
        VALUES (p_order_id, v_charge.charge_id, 'notified',
                jsonb_build_object('provider', p_provider, 'event', p_event, 'key', p_event_key), v_now);
        PERFORM payments.apply_event(
            p_order => v_order, p_charge => v_charge, p_event => p_event, p_event_key => p_event_key,
            p_trade_no => p_trade_no, p_refund_id => p_refund_id, p_refunded => p_refunded,
            p_refunded_total => p_refunded_total, p_code => p_code);
    ELSE
        PERFORM payments.open_case(
            p_kind => v_kind, p_order_id => p_order_id, p_charge_id => v_charge.charge_id,
            p_event_key => p_event_key,
            p_detail => jsonb_strip_nulls(jsonb_build_object(
                'provider', p_provider, 'event', p_event, 'trade_no', p_trade_no, 'amount', p_amount,
                'currency', p_currency)));
    END IF;

    PERFORM guard.complete(p_scope => 'webhook', p_key => p_event_key, p_fence => v_claim.fence, p_status => 200,
                           p_headers => NULL, p_body => NULL);
    RETURN CASE WHEN v_kind IS NULL THEN 'applied' ELSE 'recorded' END;
END;
$function$;

COMMENT ON FUNCTION payments.apply_notification(text, text, text, text, text, bigint, text, text, bigint, bigint, text, interval) IS
'Applies one verified notification, once per p_event_key for p_ttl (30 days: longer than any provider sends it again).
Returns applied; duplicate (was applied before: acknowledge); recorded (not applied but put before a person in
payments.cases: acknowledge); conflict or mismatch (not now: do not acknowledge). p_event is waiting, paid, finished,
failed, closed, refund_partial, refund_full or refund_failed; p_amount and p_currency are the order''s as the provider has them, null
where it does not tell, which a paid event must; p_refunded is this refund''s amount, p_refunded_total what was given back in all, in minor units. An error means that nothing
happened: do not acknowledge. Raises IK101 for an unknown event.';
