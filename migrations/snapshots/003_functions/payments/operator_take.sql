-- Takes an open key over for a person, together with the charge or refund that
-- it started, and journals who and why.
--
-- Locks, in this order: the key, the order, its charge or refund.
CREATE OR REPLACE FUNCTION payments.operator_take(
    p_scope  text,
    p_key    text,
    p_action text,
    p_actor  text,
    p_reason text,
    p_force  boolean DEFAULT false,
    p_lease  interval DEFAULT '60 seconds'
)
RETURNS payments.operator_result
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_now    timestamptz;
    v_result payments.operator_result;
    v_charge payments.charges;
    v_refund payments.refunds;
BEGIN
    SELECT t.outcome, t.fence INTO v_result.outcome, v_result.fence
      FROM guard.operator_take(p_scope => p_scope, p_key => p_key, p_action => p_action, p_actor => p_actor,
                               p_reason => p_reason, p_force => p_force, p_lease => p_lease) AS t;
    IF v_result.outcome <> 'taken' THEN
        RETURN v_result;
    END IF;

    -- The fence before this one is that of the work's last claim.
    PERFORM
       FROM payments.orders AS o
      WHERE o.order_id IN (
            SELECT c.order_id FROM payments.charges AS c
             WHERE c.due_at IS NOT NULL AND c.merchant = p_scope AND c.idempotency_key = p_key AND c.fence = v_result.fence - 1
            UNION ALL
            SELECT r.order_id FROM payments.refunds AS r
             WHERE r.due_at IS NOT NULL AND r.merchant = p_scope AND r.idempotency_key = p_key AND r.fence = v_result.fence - 1)
        FOR NO KEY UPDATE;
    v_now := clock_timestamp();
    UPDATE payments.charges AS c
       SET status = CASE c.status WHEN 'in_doubt' THEN 'processing' ELSE c.status END,
           fence = v_result.fence, due_at = v_now + p_lease, updated_at = v_now
     WHERE c.due_at IS NOT NULL AND c.merchant = p_scope AND c.idempotency_key = p_key
       AND c.fence = v_result.fence - 1
    RETURNING c.* INTO v_charge;
    UPDATE payments.refunds AS r
       SET status = CASE r.status WHEN 'in_doubt' THEN 'processing' ELSE r.status END,
           fence = v_result.fence, due_at = v_now + p_lease, updated_at = v_now
     WHERE r.due_at IS NOT NULL AND r.merchant = p_scope AND r.idempotency_key = p_key
       AND r.fence = v_result.fence - 1
    RETURNING r.* INTO v_refund;
    IF v_charge.charge_id IS NULL AND v_refund.refund_id IS NULL THEN
        RETURN v_result;
    END IF;

    INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
    VALUES (coalesce(v_charge.order_id, v_refund.order_id), coalesce(v_charge.charge_id, v_refund.charge_id),
            'operator_' || p_action,
            jsonb_strip_nulls(jsonb_build_object('actor', btrim(p_actor), 'reason', btrim(p_reason),
                                                 'refund_id', v_refund.refund_id)),
            v_now);
    IF v_charge.charge_id IS NOT NULL THEN
        v_result.charge := payments.view_charge(v_charge);
    ELSE
        v_result.refund := payments.view_refund(v_refund);
    END IF;
    RETURN v_result;
END;
$function$;

COMMENT ON FUNCTION payments.operator_take(text, text, text, text, text, boolean, interval) IS
'For operators: as guard.operator_take, and takes over what the key started too: the charge or the refund in the row, to be
ended with finish_charge, release_charge, finish_refund or release_refund and this fence. Journalled as operator_release
or operator_resolve with actor and reason. Neither charge nor refund: the key is of other work, end it with guard''s
functions.';
