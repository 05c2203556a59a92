-- Takes an open key over for a person, who says how its work ended, and writes
-- down who and why. Its holder's fence is stale from then on.
-- Locks: the key's row. Waits for a transaction that has it changed.
CREATE OR REPLACE FUNCTION guard.operator_take(
    p_scope     text,
    p_key       text,
    p_action    text,
    p_actor     text,
    p_reason    text,
    p_force     boolean DEFAULT false,
    p_lease     interval DEFAULT '60 seconds',
    OUT outcome text,
    OUT fence   bigint
)
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_row guard.idempotency_keys;
    v_now timestamptz;
BEGIN
    PERFORM guard.check_holder(p_scope => p_scope, p_key => p_key, p_fence => 0);
    IF p_action IS NULL OR p_action NOT IN ('release', 'resolve') THEN
        RAISE EXCEPTION 'p_action must be release or resolve' USING ERRCODE = 'IK014';
    END IF;
    IF p_actor IS NULL OR char_length(btrim(p_actor)) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'p_actor must name who does it, in 1 to 255 characters' USING ERRCODE = 'IK014';
    END IF;
    IF p_reason IS NULL OR char_length(btrim(p_reason)) NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'p_reason must say why, in 1 to 1000 characters' USING ERRCODE = 'IK014';
    END IF;
    IF p_lease IS NULL OR p_lease <= interval '0' OR p_lease > interval '1 day' THEN
        RAISE EXCEPTION 'p_lease must be longer than 0 and at most 1 day' USING ERRCODE = 'IK005';
    END IF;

    SELECT * INTO v_row
      FROM guard.idempotency_keys AS k
     WHERE k.scope = p_scope AND k.key = p_key
       FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 'gone';
        RETURN;
    END IF;
    IF v_row.completed_at IS NOT NULL THEN
        outcome := 'completed';
        RETURN;
    END IF;
    v_now := clock_timestamp();
    IF v_row.lease_until > v_now AND p_force IS NOT TRUE THEN
        outcome := 'held';
        RETURN;
    END IF;

    -- The response that is to come lives as long as the claim wanted.
    UPDATE guard.idempotency_keys AS k
       SET fence = k.fence + 1,
           locked_at = v_now,
           lease_until = v_now + p_lease,
           expires_at = v_now + greatest(k.expires_at - k.locked_at, p_lease)
     WHERE k.scope = p_scope AND k.key = p_key
    RETURNING k.fence INTO fence;
    INSERT INTO guard.operator_log AS l (scope, key, fence, action, actor, reason, forced, at)
    VALUES (p_scope, p_key, fence, p_action, btrim(p_actor), btrim(p_reason), v_row.lease_until > v_now, v_now);
    outcome := 'taken';
END;
$function$;

COMMENT ON FUNCTION guard.operator_take(text, text, text, text, text, boolean, interval) IS
'For operators: takes an open key over, to end it by hand with release, complete or abandon and this fence. One row:
  taken      written to guard.operator_log with p_action (release or resolve), p_actor and p_reason.
  held       somebody is at work and p_force is not true; nothing changed.
  completed  it has its response already, which is what every retry gets; nothing changed.
  gone       there is no such key.
Raises IK001, IK002, IK005 or IK014 for arguments out of range.';
