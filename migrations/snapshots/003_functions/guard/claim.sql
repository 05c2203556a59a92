-- Takes a key before the work is done, or tells why not.
--
-- Outcomes: claimed (do the work, then complete, release or abandon with this
-- fence), replay (answer with the stored response), conflict (another holder
-- is at work), mismatch (the key belongs to another request).
-- Locks: the key's row, only with outcome claimed. The others write nothing.
-- Waits: only for a caller that claims this key inside its own open
-- transaction; bound that with lock_timeout.
-- Plans: a session keeps the plan that it made when the table was small, hence
-- enable_seqscan, here as in every function that looks for one key.
CREATE OR REPLACE FUNCTION guard.claim(
    p_scope        text,
    p_key          text,
    p_request_path text,
    p_request_hash bytea,
    p_lease        interval DEFAULT '60 seconds',
    p_ttl          interval DEFAULT '24 hours'
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
    v_now     timestamptz;
    v_expired boolean;
    v_fence   bigint;
    v_result  guard.result;
    -- A look-up takes a predicate lock on a whole index page, so that under
    -- SERIALIZABLE two new keys would collide; there the insert goes first.
    v_look    boolean := current_setting('transaction_isolation') <> 'serializable';
BEGIN
    IF (char_length(p_scope) BETWEEN 1 AND 255 AND char_length(p_key) BETWEEN 1 AND 255
        AND char_length(p_request_path) BETWEEN 1 AND 2048 AND octet_length(p_request_hash) = 32
        AND p_lease > interval '0' AND p_lease <= interval '1 day'
        AND p_ttl >= p_lease AND p_ttl <= interval '3650 days') IS NOT TRUE
    THEN
        PERFORM guard.check_claim(p_scope => p_scope, p_key => p_key, p_request_path => p_request_path,
                                  p_request_hash => p_request_hash, p_lease => p_lease, p_ttl => p_ttl);
    END IF;

    -- Each turn without a result means that another transaction changed the
    -- key between two statements of this one; the bound is never met in practice.
    FOR v_turn IN 1..100 LOOP
        v_now := clock_timestamp();

        IF v_look THEN
            SELECT * INTO v_row
              FROM guard.idempotency_keys AS k
             WHERE k.scope = p_scope AND k.key = p_key;

            IF FOUND THEN
                v_expired := v_row.expires_at <= v_now
                    AND (v_row.completed_at IS NOT NULL OR v_row.lease_until <= v_now);

                IF NOT v_expired THEN
                    IF v_row.request_hash <> p_request_hash OR v_row.request_path <> p_request_path THEN
                        v_result.outcome := 'mismatch';
                        v_result.recovered := false;
                        RETURN v_result;
                    END IF;
                    IF v_row.completed_at IS NOT NULL THEN
                        v_result.outcome := 'replay';
                        v_result.recovered := false;
                        v_result.response_status := v_row.response_status;
                        v_result.response_headers := v_row.response_headers;
                        v_result.response_body := v_row.response_body;
                        RETURN v_result;
                    END IF;
                    IF v_row.lease_until > v_now THEN
                        v_result.outcome := 'conflict';
                        v_result.recovered := false;
                        v_result.retry_after_ms := guard.retry_after_ms(v_row.lease_until - v_now);
                        RETURN v_result;
                    END IF;
                END IF;

                -- The lease or the life is over: take the row over, unless it
                -- changed since it was read.
                UPDATE guard.idempotency_keys AS k
                   SET request_path = p_request_path,
                       request_hash = p_request_hash,
                       fence = k.fence + 1,
                       response_status = NULL,
                       response_headers = NULL,
                       response_body = NULL,
                       locked_at = v_now,
                       lease_until = v_now + p_lease,
                       completed_at = NULL,
                       created_at = CASE WHEN v_expired THEN v_now ELSE k.created_at END,
                       expires_at = v_now + p_ttl
                 WHERE k.scope = p_scope AND k.key = p_key
                   AND k.fence = v_row.fence
                   AND k.lease_until = v_row.lease_until
                   AND k.expires_at = v_row.expires_at
                   AND (k.completed_at IS NULL) = (v_row.completed_at IS NULL)
                RETURNING k.fence INTO v_fence;

                IF FOUND THEN
                    v_result.recovered := v_row.completed_at IS NULL;
                    EXIT;
                END IF;
                CONTINUE;
            END IF;
        END IF;

        INSERT INTO guard.idempotency_keys AS k (
            scope, key, request_path, request_hash, fence, locked_at, lease_until, created_at, expires_at)
        VALUES (
            p_scope, p_key, p_request_path, p_request_hash,
            (extract(epoch FROM v_now) * 1000000)::bigint,
            v_now, v_now + p_lease, v_now, v_now + p_ttl)
        ON CONFLICT (scope, key) DO NOTHING
        RETURNING k.fence INTO v_fence;

        IF FOUND THEN
            v_result.recovered := false;
            EXIT;
        END IF;
        v_look := true;
    END LOOP;

    IF v_fence IS NULL THEN
        RAISE EXCEPTION 'the key changed hands 100 times during one claim; try again' USING ERRCODE = 'IK010';
    END IF;
    -- A write that waited for another transaction comes late, with part of the
    -- lease gone: it counts from now on.
    IF clock_timestamp() > v_now + p_lease / 10 THEN
        PERFORM guard.extend(p_scope => p_scope, p_key => p_key, p_fence => v_fence, p_lease => p_lease);
    END IF;
    v_result.outcome := 'claimed';
    v_result.fence := v_fence;
    RETURN v_result;
END;
$function$;

COMMENT ON FUNCTION guard.claim(text, text, text, bytea, interval, interval) IS
'Takes an idempotency key before the work is done. Exactly one row:
  claimed   do the work, then call complete, release or abandon with this fence. recovered = true: an earlier holder
            never completed; its work is in doubt, so ask (the payment provider, say) before doing it again.
  replay    already done: answer with response_status, response_headers, response_body.
  conflict  another holder is at work: answer 409 and let the client come back after retry_after_ms.
  mismatch  the key was used with another path or body: answer 422.
p_lease (60 seconds; above 0, at most 1 day): how long the claim is held. p_ttl (24 hours; at least p_lease, at most 3650
days): life of the key. Raises IK001 to IK006 for arguments out of range, IK010 under impossible contention.';
