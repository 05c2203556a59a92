-- Locks a holder's row and tells its address, for transactions above READ
-- COMMITTED; complete, release, extend, abandon and hold use it only there.
--
-- SERIALIZABLE notes a look-up for the whole index page it fell on, so that
-- transactions on different keys would fail each other with 40001. A unique
-- check notes nothing, and an address names one row. It also sees the newest
-- row: a claim committed after the transaction's snapshot is error 40001,
-- where a look-up would report the key as gone.
CREATE OR REPLACE FUNCTION guard.holder_row(p_scope text, p_key text, p_fence bigint)
RETURNS tid
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_address tid;
    v_created timestamptz;
BEGIN
    INSERT INTO guard.idempotency_keys AS k (
        scope, key, request_path, request_hash, fence, locked_at, lease_until, created_at, expires_at)
    VALUES (
        p_scope, p_key, '-', decode(repeat('00', 32), 'hex'), p_fence,
        '-infinity', '-infinity', '-infinity', '-infinity')
    ON CONFLICT (scope, key) DO UPDATE
       SET fence = k.fence
     WHERE k.fence = p_fence
       AND k.completed_at IS NULL
    RETURNING k.ctid, k.created_at INTO v_address, v_created;

    -- There was no such key: take back the row that stood for the question.
    IF v_created = '-infinity' THEN
        DELETE FROM guard.idempotency_keys AS k
         WHERE k.scope = p_scope AND k.key = p_key
           AND k.ctid = v_address;
        RETURN '(0,0)'::tid;
    END IF;
    RETURN v_address;
END;
$function$;

COMMENT ON FUNCTION guard.holder_row(text, text, bigint) IS
'Internal: address of the uncompleted row with this fence, locked; null when there is another row, (0,0) when none.';
