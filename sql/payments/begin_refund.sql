-- Starts a refund in one round trip: claims the key, locks the order, holds
-- the refund within what was captured, records it. No provider may be called
-- before it says claimed.
--
-- Locks, in this order, as in every function here: the key, the order, its
-- refunds. A replay, a conflict and a mismatch lock and write nothing.
CREATE OR REPLACE FUNCTION payments.begin_refund(
    p_merchant     text,
    p_key          text,
    p_request_path text,
    p_request_hash bytea,
    p_order_id     text,
    p_refund_id    text,
    p_new_id       text,
    p_amount       bigint,
    p_lease        interval DEFAULT '60 seconds',
    p_ttl          interval DEFAULT '24 hours',
    p_again        boolean DEFAULT false,
    p_quiet        interval DEFAULT '60 seconds'
)
RETURNS payments.refund_result
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_claim  guard.result;
    v_order  payments.orders;
    v_refund payments.refunds;
    v_taken  bigint;
    v_result payments.refund_result;
    v_now    timestamptz;
BEGIN
    v_claim := guard.claim(p_scope => p_merchant, p_key => p_key, p_request_path => p_request_path,
                           p_request_hash => p_request_hash, p_lease => p_lease, p_ttl => p_ttl);
    v_result.outcome := v_claim.outcome;
    v_result.fence := v_claim.fence;
    v_result.recovered := v_claim.recovered;
    v_result.response_status := v_claim.response_status;
    v_result.response_headers := v_claim.response_headers;
    v_result.response_body := v_claim.response_body;
    v_result.retry_after_ms := v_claim.retry_after_ms;
    IF v_claim.outcome = 'conflict' AND p_again THEN
        -- The first answer to this call was lost. Only its caller knows the
        -- number, so a refund with it, still under its first claim, is the caller's.
        SELECT * INTO v_refund
          FROM payments.refunds AS r
         WHERE r.refund_id = p_new_id AND r.merchant = p_merchant AND r.idempotency_key = p_key
           AND r.status = 'processing';
        SELECT i.fence INTO v_result.fence
          FROM guard.inspect(p_scope => p_merchant, p_key => p_key) AS i
         WHERE i.state = 'held' AND i.fence = v_refund.fence;
        IF FOUND THEN
            v_result.outcome := 'claimed';
            v_result.quiet := true;
            v_result.retry_after_ms := NULL;
            v_result.refund := payments.view_refund(v_refund);
        END IF;
        RETURN v_result;
    END IF;
    IF v_claim.outcome <> 'claimed' THEN
        RETURN v_result;
    END IF;

    SELECT * INTO v_order
      FROM payments.orders AS o
     WHERE o.order_id = p_order_id AND o.merchant = p_merchant
       FOR NO KEY UPDATE;

    IF NOT FOUND THEN
        v_result.outcome := 'order_unknown';
    ELSE
        -- Without a number of the client's, a claim that was never completed, or
        -- was free to start anew, has to go on under the number that it made: the
        -- provider knows by it that this is not another refund.
        SELECT * INTO v_refund
          FROM payments.refunds AS r
         WHERE r.refund_id = p_refund_id
            OR (p_refund_id IS NULL AND (v_claim.recovered OR r.failure_kind = 'unsent') AND r.order_id = p_order_id
                AND r.idempotency_key = p_key AND r.amount = p_amount)
         ORDER BY r.created_at DESC
         LIMIT 1
           FOR NO KEY UPDATE;

        IF FOUND THEN
            IF v_refund.order_id <> p_order_id OR v_refund.amount <> p_amount THEN
                v_result.outcome := 'refund_mismatch';
            ELSIF v_refund.status IN ('processing', 'in_doubt') THEN
                IF v_refund.idempotency_key <> p_key THEN
                    v_result.outcome := 'refund_in_progress';
                    v_result.retry_after_ms := 1000;
                END IF;
            ELSIF v_refund.failure_kind IS DISTINCT FROM 'unsent' AND v_refund.idempotency_key <> p_key THEN
                v_result.outcome := 'refund_exists';
            END IF;
        ELSIF v_order.paid_charge_id IS NULL THEN
            v_result.outcome := 'order_not_paid';
        END IF;

        IF v_result.outcome = 'claimed' AND (v_refund.refund_id IS NULL OR v_refund.failure_kind = 'unsent') THEN
            SELECT coalesce(sum(r.amount), 0)::bigint INTO v_taken
              FROM payments.refunds AS r
             WHERE r.order_id = p_order_id AND r.status <> 'failed';
            IF p_amount > v_order.amount - v_taken THEN
                v_result.outcome := 'refund_exceeds_capture';
            END IF;
        END IF;
    END IF;

    IF v_result.outcome <> 'claimed' THEN
        -- Refused by the order's state and not by a provider: the key stays free.
        PERFORM guard.release(p_scope => p_merchant, p_key => p_key, p_fence => v_claim.fence);
        v_result.fence := NULL;
        v_result.recovered := false;
        IF v_result.outcome = 'refund_exists' THEN
            v_result.refund := payments.view_refund(v_refund);
        END IF;
        RETURN v_result;
    END IF;

    v_now := clock_timestamp();
    IF v_refund.refund_id IS NULL THEN
        INSERT INTO payments.refunds AS r (
            refund_id, order_id, charge_id, merchant, idempotency_key, fence, amount, currency, status,
            due_at, unanswered_at, created_at, updated_at)
        VALUES (
            coalesce(p_refund_id, p_new_id), p_order_id, v_order.paid_charge_id, p_merchant, p_key, v_claim.fence,
            p_amount, v_order.currency, 'processing', v_now + p_lease, v_now, v_now, v_now)
        ON CONFLICT (refund_id) DO NOTHING
        RETURNING r.* INTO v_refund;
        IF NOT FOUND THEN
            -- Another order's refund took the number between the look and the insert.
            PERFORM guard.release(p_scope => p_merchant, p_key => p_key, p_fence => v_claim.fence);
            v_result.outcome := 'refund_mismatch';
            v_result.fence := NULL;
            v_result.recovered := false;
            RETURN v_result;
        END IF;
        v_result.quiet := true;
        INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
        VALUES (p_order_id, v_refund.charge_id, 'refund_started',
                jsonb_build_object('refund_id', v_refund.refund_id, 'amount', p_amount), v_now);
    ELSE
        -- An attempt without an end: the money may have moved, whatever the
        -- key says. One that surely moved none starts anew.
        v_result.recovered := v_result.recovered OR v_refund.status IN ('processing', 'in_doubt');
        IF v_refund.failure_kind = 'unsent' THEN
            v_result.recovered := false;
            v_refund.status := 'processing';
        END IF;
        v_result.quiet := coalesce(v_refund.unanswered_at < v_now - p_quiet, true);
        UPDATE payments.refunds AS r
           SET status = CASE WHEN v_refund.status = 'in_doubt' THEN 'processing' ELSE v_refund.status END,
               idempotency_key = p_key, fence = v_claim.fence,
               failure_kind = CASE v_refund.status WHEN 'failed' THEN r.failure_kind END,
               failure_code = CASE v_refund.status WHEN 'failed' THEN r.failure_code END,
               failure_message = CASE v_refund.status WHEN 'failed' THEN r.failure_message END,
               due_at = v_now + p_lease, updated_at = v_now,
               unanswered_at = CASE WHEN v_result.quiet THEN v_now ELSE r.unanswered_at END
         WHERE r.refund_id = v_refund.refund_id
        RETURNING r.* INTO v_refund;
        IF v_refund.status = 'processing' THEN
            INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
            VALUES (p_order_id, v_refund.charge_id, 'refund_taken_over',
                    jsonb_build_object('refund_id', v_refund.refund_id), v_now);
        END IF;
    END IF;

    v_result.refund := payments.view_refund(v_refund);
    RETURN v_result;
END;
$function$;

COMMENT ON FUNCTION payments.begin_refund(text, text, text, bytea, text, text, text, bigint, interval, interval, boolean, interval) IS
'Claims the key and starts a refund of a paid order, numbered p_refund_id or, where that is null, p_new_id. One row;
outcomes beside those of guard.claim:
  claimed                 call the provider, then finish_refund, release_refund or abandon_refund. recovered = true: ask the
                          provider first, and refund only when it has no such refund and quiet = true. refund.status succeeded, pending or failed: decided already, finish it.
  order_unknown           there is no such order of this merchant.
  order_not_paid          nothing was captured yet.
  refund_exceeds_capture  the order''s refunds would be above what was captured.
  refund_mismatch         the refund number belongs to another order or amount.
  refund_exists           the refund was made under another key, see refund.
  refund_in_progress      another key''s holder is at work on this refund; come back after retry_after_ms.
After one of the last six the key is free again. p_again: the answer to the same call, with the same p_new_id, was lost;
it is given again. p_quiet: how long a provider may take for a request that it has not answered.';
