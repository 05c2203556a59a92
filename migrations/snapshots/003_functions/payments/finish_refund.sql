-- Ends a refund in one round trip: records the provider's verdict on refund
-- and order and completes the key.
--
-- Locks: the key, the order, the refund. A stale fence changes nothing.
CREATE OR REPLACE FUNCTION payments.finish_refund(
    p_merchant         text,
    p_key              text,
    p_fence            bigint,
    p_refund_id        text,
    p_status           text,
    p_trade_no         text,
    p_failure_code     text,
    p_failure_message  text,
    p_response_status  int,
    p_response_headers jsonb,
    p_response_body    bytea
)
RETURNS payments.refund_result
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_held   boolean;
    v_refund payments.refunds;
    v_done   guard.result;
    v_result payments.refund_result;
BEGIN
    IF p_status IS NULL OR p_status NOT IN ('pending', 'succeeded', 'failed') THEN
        RAISE EXCEPTION 'p_status must be pending, succeeded or failed' USING ERRCODE = 'IK101';
    END IF;

    v_held := guard.hold(p_scope => p_merchant, p_key => p_key, p_fence => p_fence);
    IF v_held THEN
        v_refund := payments.advance_refund(
            p_merchant => p_merchant, p_refund_id => p_refund_id, p_status => p_status, p_trade_no => p_trade_no,
            p_failure_code => p_failure_code, p_failure_message => p_failure_message, p_completes => true);
        v_result.refund := payments.view_refund(v_refund);
        IF v_refund.status <> p_status THEN
            -- A notification knew better and came first: answer what it said.
            v_result.outcome := 'superseded';
            v_result.fence := p_fence;
            v_result.recovered := false;
            RETURN v_result;
        END IF;
    END IF;

    v_done := guard.complete(p_scope => p_merchant, p_key => p_key, p_fence => p_fence, p_status => p_response_status,
                             p_headers => p_response_headers, p_body => p_response_body);
    v_result.outcome := v_done.outcome;
    v_result.fence := v_done.fence;
    v_result.recovered := v_done.recovered;
    v_result.response_status := v_done.response_status;
    v_result.response_headers := v_done.response_headers;
    v_result.response_body := v_done.response_body;
    v_result.retry_after_ms := v_done.retry_after_ms;
    RETURN v_result;
END;
$function$;

COMMENT ON FUNCTION payments.finish_refund(text, text, bigint, text, text, text, text, text, int, jsonb, bytea) IS
'Records how a refund ended (pending: the provider is still at work; succeeded; failed: refused for good) and stores the
response under the key. One row; outcomes: those of guard.complete, and
  superseded  the refund is further than p_status already, see refund; the key is still held: call again with its status
              and a response that says so.
Raises IK101 for an unknown status or refund.';
