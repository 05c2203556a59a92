-- Stores an order with its items: claim, insert and complete in one
-- transaction, so that a second request waits for the first and replays it.
CREATE OR REPLACE FUNCTION payments.create_order(
    p_merchant         text,
    p_key              text,
    p_request_path     text,
    p_request_hash     bytea,
    p_order_id         text,
    p_amount           bigint,
    p_currency         text,
    p_items            payments.order_item[],
    p_response_status  int,
    p_response_headers jsonb,
    p_response_body    bytea,
    p_ttl              interval DEFAULT '24 hours'
)
RETURNS guard.result
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_claim guard.result;
    v_now   timestamptz;
BEGIN
    IF (char_length(p_order_id) BETWEEN 1 AND 64 AND p_amount > 0 AND p_currency ~ '^[A-Z]{3}$') IS NOT TRUE THEN
        PERFORM payments.check_order(p_order_id => p_order_id, p_amount => p_amount, p_currency => p_currency);
    END IF;
    v_claim := guard.claim(p_scope => p_merchant, p_key => p_key, p_request_path => p_request_path,
                           p_request_hash => p_request_hash, p_ttl => p_ttl);
    IF v_claim.outcome <> 'claimed' THEN
        RETURN v_claim;
    END IF;

    v_now := clock_timestamp();
    INSERT INTO payments.orders (order_id, merchant, amount, currency, status, created_at, updated_at)
    VALUES (p_order_id, p_merchant, p_amount, p_currency, 'pending', v_now, v_now)
    ON CONFLICT (order_id) DO NOTHING;
    IF NOT FOUND THEN
        PERFORM guard.release(p_scope => p_merchant, p_key => p_key, p_fence => v_claim.fence);
        v_claim.outcome := 'order_taken';
        v_claim.fence := NULL;
        v_claim.recovered := false;
        RETURN v_claim;
    END IF;
    INSERT INTO payments.order_items (order_id, sku, quantity)
    SELECT p_order_id, i.sku, sum(i.quantity)::bigint
      FROM unnest(p_items) AS i
     GROUP BY i.sku;
    INSERT INTO payments.journal (order_id, event, detail, at)
    VALUES (p_order_id, 'order_created', jsonb_build_object('amount', p_amount, 'currency', p_currency), v_now);

    RETURN guard.complete(p_scope => p_merchant, p_key => p_key, p_fence => v_claim.fence, p_status => p_response_status,
                          p_headers => p_response_headers, p_body => p_response_body);
END;
$function$;

COMMENT ON FUNCTION payments.create_order(text, text, text, bytea, text, bigint, text, payments.order_item[], int, jsonb,
                                          bytea, interval) IS
'Claims the key, stores the order and completes the key with the given response, in one transaction. One row; outcomes:
those of guard.claim and guard.complete, and order_taken (the order id exists; the key is free again).';
