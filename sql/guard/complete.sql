-- Stores the response of the work; only the newest holder can.
--
-- Outcomes: completed; with a stale fence replay (the winner's response, or
-- the holder's own when it completes twice), conflict (the new holder is still
-- at work), gone (the key was released or purged).
-- Locks: the key's row.
CREATE OR REPLACE FUNCTION guard.complete(
    p_scope   text,
    p_key     text,
    p_fence   bigint,
    p_status  int,
    p_headers jsonb,
    p_body    bytea
)
RETURNS guard.result
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_row     guard.idempotency_keys;
    v_now     timestamptz := clock_timestamp();
    v_address tid;
    v_result  guard.result;
BEGIN
    IF (char_length(p_scope) BETWEEN 1 AND 255 AND char_length(p_key) BETWEEN 1 AND 255
        AND p_fence IS NOT NULL) IS NOT TRUE
    THEN
        PERFORM guard.check_holder(p_scope => p_scope, p_key => p_key, p_fence => p_fence);
    END IF;
    IF p_status IS NULL OR p_status NOT BETWEEN 100 AND 599 THEN
        RAISE EXCEPTION 'p_status must be an HTTP status, 100 to 599' USING ERRCODE = 'IK008';
    END IF;
    IF jsonb_typeof(p_headers) <> 'object' THEN
        RAISE EXCEPTION 'p_headers must be a JSON object or null' USING ERRCODE = 'IK009';
    END IF;

    -- The response lives for the key's full time to live from now on: work
    -- that outlasted the key must still be replayed to its client's retry. The
    -- time that the work took is what is added, since adding the life would add
    -- days, which are an hour shorter or longer where the clocks change.
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        v_address := guard.holder_row(p_scope => p_scope, p_key => p_key, p_fence => p_fence);
        UPDATE guard.idempotency_keys AS k
           SET response_status = p_status,
               response_headers = coalesce(p_headers, '{}'),
               response_body = coalesce(p_body, ''),
               completed_at = v_now,
               expires_at = k.expires_at + (v_now - k.locked_at)
         WHERE k.scope = p_scope AND k.key = p_key
           AND k.ctid = v_address;
    ELSE
        UPDATE guard.idempotency_keys AS k
           SET response_status = p_status,
               response_headers = coalesce(p_headers, '{}'),
               response_body = coalesce(p_body, ''),
               completed_at = v_now,
               expires_at = k.expires_at + (v_now - k.locked_at)
         WHERE k.scope = p_scope AND k.key = p_key
           AND k.fence = p_fence
           AND k.completed_at IS NULL;
    END IF;

    IF FOUND THEN
        v_result.outcome := 'completed';
        v_result.fence := p_fence;
        v_result.recovered := false;
        v_result.response_status := p_status;
        v_result.response_headers := coalesce(p_headers, '{}');
        v_result.response_body := coalesce(p_body, '');
        RETURN v_result;
    END IF;

    v_result.recovered := false;
    IF v_address = '(0,0)' THEN
        v_result.outcome := 'gone';
        RETURN v_result;
    END IF;

    SELECT * INTO v_row
      FROM guard.idempotency_keys AS k
     WHERE k.scope = p_scope AND k.key = p_key;

    IF NOT FOUND THEN
        v_result.outcome := 'gone';
    ELSIF v_row.completed_at IS NULL THEN
        v_result.outcome := 'conflict';
        v_result.retry_after_ms := guard.retry_after_ms(v_row.lease_until - v_now);
    ELSE
        v_result.outcome := 'replay';
        v_result.response_status := v_row.response_status;
        v_result.response_headers := v_row.response_headers;
        v_result.response_body := v_row.response_body;
    END IF;
    RETURN v_result;
END;
$function$;

COMMENT ON FUNCTION guard.complete(text, text, bigint, int, jsonb, bytea) IS
'Stores the response under the key and ends the claim. p_fence is the number that claim gave. Exactly one row:
  completed  stored; every retry gets this response.
  replay     somebody else completed (or you did before): answer with the response in this row, not with your own.
  conflict   your lease ran out and a new holder is at work: answer 409, do not answer with your own result.
  gone       the key was released or purged after your lease: nothing is stored.
p_headers is a JSON object or null, p_body any bytes or null (empty). The response lives for the claim''s p_ttl from
now. Raises IK001, IK002, IK007, IK008, IK009 for arguments out of range.';
