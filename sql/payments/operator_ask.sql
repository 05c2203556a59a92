-- Makes the next inquiry about a charge or a refund due at once, for a person
-- who wants the provider asked, and journals who.
--
-- Locks, in this order: the order, its charge or refund. The key is only read:
-- the reconciler claims it.
CREATE OR REPLACE FUNCTION payments.operator_ask(p_charge_id text, p_refund_id text, p_actor text)
RETURNS text
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_now  timestamptz;
    v_work record;
BEGIN
    IF num_nonnulls(p_charge_id, p_refund_id) <> 1 THEN
        RAISE EXCEPTION 'one of p_charge_id and p_refund_id must be given' USING ERRCODE = 'IK101';
    END IF;
    IF p_actor IS NULL OR char_length(btrim(p_actor)) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'p_actor must name who asks, in 1 to 255 characters' USING ERRCODE = 'IK101';
    END IF;
    SELECT w.* INTO v_work
      FROM (SELECT c.order_id, c.charge_id, c.merchant, c.idempotency_key
              FROM payments.charges AS c WHERE c.charge_id = p_charge_id
            UNION ALL
            SELECT r.order_id, r.charge_id, r.merchant, r.idempotency_key
              FROM payments.refunds AS r WHERE r.refund_id = p_refund_id) AS w;
    IF NOT FOUND THEN
        RETURN 'gone';
    END IF;
    IF EXISTS (SELECT FROM guard.inspect(p_scope => v_work.merchant, p_key => v_work.idempotency_key) AS i
                WHERE i.state = 'held') THEN
        RETURN 'held';
    END IF;

    PERFORM FROM payments.orders AS o WHERE o.order_id = v_work.order_id FOR NO KEY UPDATE;
    v_now := clock_timestamp();
    IF p_charge_id IS NOT NULL THEN
        UPDATE payments.charges AS c
           SET due_at = least(c.due_at, v_now)
         WHERE c.charge_id = p_charge_id AND c.due_at IS NOT NULL;
    ELSE
        UPDATE payments.refunds AS r
           SET due_at = least(r.due_at, v_now)
         WHERE r.refund_id = p_refund_id AND r.due_at IS NOT NULL;
    END IF;
    IF NOT FOUND THEN
        RETURN 'ended';
    END IF;
    INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
    VALUES (v_work.order_id, v_work.charge_id, 'operator_ask',
            jsonb_strip_nulls(jsonb_build_object('actor', btrim(p_actor), 'refund_id', p_refund_id)), v_now);
    RETURN 'due';
END;
$function$;

COMMENT ON FUNCTION payments.operator_ask(text, text, text) IS
'For operators: makes the inquiry about a charge or a refund (one of the two is null) due now, journalled as operator_ask with
p_actor. Returns:
  due    claim_due_charge or claim_due_refund takes it next.
  held   a holder is at work; nothing changed.
  ended  it has its end, nothing is left to ask; nothing changed.
  gone   there is no such charge or refund.
Raises IK101 for arguments out of range.';
