-- Takes one refund whose end nobody has recorded, for the reconciler: one past its
-- holder's lease with its key, one that is pending without.
--
-- Locks, in this order, as in every function here: the key, the order, the
-- refund. Several reconcilers share the work: whoever comes second waits for this
-- transaction, not for the inquiry, and goes on to the next. The key comes
-- first, so the refunds themselves cannot be skipped by SKIP LOCKED.
CREATE OR REPLACE FUNCTION payments.claim_due_refund(
    p_providers text[],
    p_lease     interval DEFAULT '60 seconds',
    p_ttl       interval DEFAULT '24 hours',
    p_quiet     interval DEFAULT '60 seconds',
    p_refund_id text DEFAULT NULL
)
RETURNS payments.due_refund
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_now   timestamptz := clock_timestamp();
    v_due   payments.refunds;
    v_row   payments.refunds;
    v_key   record;
    v_claim guard.result;
    v_held  boolean;
    v_taken payments.due_refund;
BEGIN
    FOR v_due IN
        SELECT *
          FROM payments.refunds AS r
         WHERE r.due_at <= v_now
           AND (p_refund_id IS NULL OR r.refund_id = p_refund_id)
           AND EXISTS (SELECT FROM payments.charges AS c
                        WHERE c.charge_id = r.charge_id AND c.provider = ANY (p_providers))
         ORDER BY r.due_at
         LIMIT 100
    LOOP
        -- The key with this fence is the refund's; any other is about other work.
        SELECT i.state, i.request_path, i.request_hash, i.lease_until INTO v_key
          FROM guard.inspect(p_scope => v_due.merchant, p_key => v_due.idempotency_key) AS i
         WHERE i.fence = v_due.fence;
        v_held := coalesce(v_key.state = 'held', false);
        v_claim := NULL;
        IF v_key.state = 'in_doubt' THEN
            v_claim := guard.claim(
                p_scope => v_due.merchant, p_key => v_due.idempotency_key, p_request_path => v_key.request_path,
                p_request_hash => v_key.request_hash, p_lease => p_lease, p_ttl => p_ttl);
            CONTINUE WHEN v_claim.outcome <> 'claimed';
        END IF;

        PERFORM FROM payments.orders AS o WHERE o.order_id = v_due.order_id FOR NO KEY UPDATE;
        v_now := clock_timestamp();
        UPDATE payments.refunds AS r
           SET status = CASE WHEN r.status = 'in_doubt' AND NOT v_held THEN 'processing' ELSE r.status END,
               fence = coalesce(v_claim.fence, r.fence),
               inquiries = r.inquiries + (NOT v_held)::int,
               due_at = CASE
                   WHEN v_held THEN v_key.lease_until
                   WHEN v_claim.fence IS NOT NULL OR r.status IN ('processing', 'in_doubt') THEN v_now + p_lease
                   WHEN r.status = 'pending' THEN v_now + payments.inquiry_wait(r.inquiries + 1, true)
               END
         WHERE r.refund_id = v_due.refund_id
           AND r.fence = v_due.fence
           AND r.due_at <= v_now
        RETURNING r.* INTO v_row;

        -- Somebody was faster, and has ended it or will.
        IF NOT FOUND AND v_claim.recovered THEN
            PERFORM guard.abandon(p_scope => v_due.merchant, p_key => v_due.idempotency_key, p_fence => v_claim.fence);
        ELSIF NOT FOUND AND v_claim.fence IS NOT NULL THEN
            PERFORM guard.release(p_scope => v_due.merchant, p_key => v_due.idempotency_key, p_fence => v_claim.fence);
        END IF;
        -- Nothing due any more: a notification ended it after its key was completed.
        CONTINUE WHEN v_row.refund_id IS NULL OR v_held OR v_row.due_at IS NULL;

        IF v_row.status = 'processing' THEN
            INSERT INTO payments.journal (order_id, charge_id, event, detail, at)
            VALUES (v_row.order_id, v_row.charge_id, 'refund_taken_over', jsonb_build_object('by', 'reconciler', 'refund_id', v_row.refund_id), v_now);
        END IF;
        v_taken.merchant := v_row.merchant;
        v_taken.key := v_row.idempotency_key;
        v_taken.fence := v_claim.fence;
        v_taken.quiet := coalesce(v_row.unanswered_at < v_now - p_quiet, true);
        v_taken.refund := payments.view_refund(v_row);
        RETURN v_taken;
    END LOOP;
    RETURN NULL;
END;
$function$;

COMMENT ON FUNCTION payments.claim_due_refund(text[], interval, interval, interval, text) IS
'Takes the refund that is longest due for an inquiry at one of the providers, for a reconciler; null: nothing is due.
With a fence: the key was taken over too; ask the provider, then call finish_refund, release_refund or abandon_refund (a
refund that is succeeded, pending or failed is decided already, finish it). Without: ask the provider, then call
record_refund_inquiry. Comes back by itself, after growing waits, until it is ended.';
