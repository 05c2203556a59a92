-- Starts a charge in one round trip: claims the key, stores and locks the
-- order, records the attempt. No provider may be called before it says claimed.
--
-- Locks, in this order, as in every function here: the key, the order, its
-- charges, stock. A replay, a conflict and a mismatch lock and write nothing.
-- Plans: enable_seqscan as in guard.claim, for all that is called from here and
-- in every function that the server calls.
CREATE OR REPLACE FUNCTION payments.begin_charge(
    p_merchant     text,
    p_key          text,
    p_request_path text,
    p_request_hash bytea,
    p_charge_id    text,
    p_order_id     text,
    p_provider     text,
    p_method       text,
    p_amount       bigint,
    p_currency     text,
    p_lease        interval DEFAULT '60 seconds',
    p_ttl          interval DEFAULT '24 hours',
    p_again        boolean DEFAULT false,
    p_quiet        interval DEFAULT '60 seconds'
)
RETURNS payments.charge_result
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_claim   guard.result;
    v_order   payments.orders;
    v_charge  payments.charges;
    v_result  payments.charge_result;
    v_now     timestamptz;
    v_attempt int := 1;
BEGIN
    IF (char_length(p_order_id) BETWEEN 1 AND 64 AND p_amount > 0 AND p_currency ~ '^[A-Z]{3}$') IS NOT TRUE THEN
        PERFORM payments.check_order(p_order_id => p_order_id, p_amount => p_amount, p_currency => p_currency);
    END IF;
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
        -- number, so a charge with it, still under its first claim, is the caller's.
        SELECT * INTO v_charge
          FROM payments.charges AS c
         WHERE c.charge_id = p_charge_id AND c.merchant = p_merchant AND c.idempotency_key = p_key
           AND c.status = 'processing';
        SELECT i.fence INTO v_result.fence
          FROM guard.inspect(p_scope => p_merchant, p_key => p_key) AS i
         WHERE i.state = 'held' AND i.fence = v_charge.fence;
        IF FOUND THEN
            v_result.outcome := 'claimed';
            v_result.quiet := true;
            v_result.retry_after_ms := NULL;
            v_result.charge := payments.view_charge(v_charge);
        END IF;
        RETURN v_result;
    END IF;
    IF v_claim.outcome <> 'claimed' THEN
        RETURN v_result;
    END IF;

    v_now := clock_timestamp();
    INSERT INTO payments.orders AS o (order_id, merchant, amount, currency, status, created_at, updated_at)
    VALUES (p_order_id, p_merchant, p_amount, p_currency, 'processing', v_now, v_now)
    ON CONFLICT (order_id) DO NOTHING
    RETURNING o.* INTO v_order;

    IF NOT FOUND THEN
        SELECT * INTO STRICT v_order
          FROM payments.orders AS o
         WHERE o.order_id = p_order_id
           FOR NO KEY UPDATE;

        IF v_order.merchant <> p_merchant THEN
            v_result.outcome := 'order_taken';
        ELSIF v_order.amount <> p_amount OR v_order.currency <> p_currency THEN
            v_result.outcome := 'order_mismatch';
        ELSE
            v_charge := payments.charge_to_continue(p_order => v_order, p_key => p_key,
                                                    p_recovered => v_claim.recovered);
            IF v_charge.charge_id IS NULL THEN
                SELECT 1 + count(*)::int INTO v_attempt
                  FROM payments.charges AS e
                 WHERE e.order_id = p_order_id AND e.failure_kind = 'refused';
                IF v_order.status = 'closed' THEN
                    v_result.outcome := 'order_closed';
                ELSIF NOT payments.reserve_stock(p_order_id => p_order_id) THEN
                    v_result.outcome := 'out_of_stock';
                END IF;
            ELSIF v_charge.status = 'succeeded' AND v_charge.idempotency_key <> p_key THEN
                v_result.outcome := 'order_paid';
            ELSIF v_charge.idempotency_key <> p_key THEN
                v_result.outcome := 'charge_in_progress';
                v_result.retry_after_ms := 1000;
            END IF;
        END IF;

        IF v_result.outcome <> 'claimed' THEN
            -- Refused by the order's state and not by a provider: the key stays free.
            PERFORM guard.release(p_scope => p_merchant, p_key => p_key, p_fence => v_claim.fence);
            v_result.fence := NULL;
            v_result.recovered := false;
            IF v_result.outcome = 'order_paid' THEN
                v_result.charge := payments.view_charge(v_charge);
            END IF;
            RETURN v_result;
        END IF;

        IF v_order.status = 'pending' THEN
            UPDATE payments.orders AS o
               SET status = 'processing', updated_at = v_now
             WHERE o.order_id = p_order_id;
        END IF;
    END IF;

    IF v_charge.charge_id IS NULL THEN
        INSERT INTO payments.charges AS c (
            charge_id, order_id, merchant, idempotency_key, fence, provider, method, amount, currency,
            attempt, status, due_at, unanswered_at, created_at, updated_at)
        VALUES (
            p_charge_id, p_order_id, p_merchant, p_key, v_claim.fence, p_provider, p_method, p_amount, p_currency,
            v_attempt, 'processing', v_now + p_lease, v_now, v_now, v_now)
        RETURNING c.* INTO v_charge;
        v_result.quiet := true;
        INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
        VALUES (p_order_id, p_charge_id, 'charge_started',
                jsonb_build_object('provider', p_provider, 'attempt', v_charge.attempt), v_now);
    ELSE
        v_result.quiet := coalesce(v_charge.unanswered_at < v_now - p_quiet, true);
        UPDATE payments.charges AS c
           SET status = CASE c.status WHEN 'in_doubt' THEN 'processing' ELSE c.status END,
               fence = v_claim.fence, due_at = v_now + p_lease, updated_at = v_now,
               unanswered_at = CASE WHEN v_result.quiet THEN v_now ELSE c.unanswered_at END
         WHERE c.charge_id = v_charge.charge_id
        RETURNING c.* INTO v_charge;
        IF v_charge.status = 'processing' THEN
            -- Its holder is gone: the money may have moved, whatever the key says.
            v_result.recovered := true;
            INSERT INTO payments.journal (order_id, charge_id, event, at)
            VALUES (p_order_id, v_charge.charge_id, 'charge_taken_over', v_now);
        END IF;
    END IF;

    v_result.charge := payments.view_charge(v_charge);
    RETURN v_result;
END;
$function$;

COMMENT ON FUNCTION payments.begin_charge(text, text, text, bytea, text, text, text, text, bigint, text, interval, interval, boolean, interval) IS
'Claims the key and starts a charge on the order, which is created when it does not exist. One row; outcomes beside
those of guard.claim:
  claimed             call the provider, then finish_charge, release_charge or abandon_charge. recovered = true: ask the
                      provider first, and charge only when it has no such trade and quiet = true. charge.status succeeded, pending or failed: the charge is decided already, finish it.
  order_taken         the order id belongs to another merchant.
  order_mismatch      the order has another amount or currency.
  order_paid          already paid by the charge in this row, under another key.
  order_closed        the order takes no more charges.
  out_of_stock        the order''s goods are not there in full; nothing is reserved.
  charge_in_progress  another key''s charge on this order is running or in doubt; come back after retry_after_ms, or with
                      that key.
After one of the last six the key is free again. p_again: the answer to the same call, with the same p_charge_id, was lost;
it is given again. p_quiet: how long a provider may take for a request that it has not answered.';
