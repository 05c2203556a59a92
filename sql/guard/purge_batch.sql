-- Deletes at most p_batch purgeable keys from p_pages pages of the table.
--
-- The range of row addresses makes one purge a single walk over the table,
-- without an index on expires_at that every claim would have to maintain; the
-- planner must not trade that walk for a scan from the start.
-- Locks: the deleted rows, until the caller commits; rows that somebody else
-- has locked are skipped.
CREATE OR REPLACE FUNCTION guard.purge_batch(
    p_batch          int,
    p_from           tid,
    p_until          tid,
    p_in_doubt_grace interval,
    OUT deleted      int,
    OUT last         tid
)
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    WITH due AS (
        SELECT k.ctid AS address
          FROM guard.idempotency_keys AS k
         WHERE k.ctid > p_from AND k.ctid < p_until
           AND k.expires_at <= v_now
           AND (k.completed_at IS NOT NULL
                OR (k.expires_at <= v_now - p_in_doubt_grace AND k.lease_until <= v_now))
         LIMIT p_batch
           FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM guard.idempotency_keys AS k
         USING due
         WHERE k.ctid = due.address
        RETURNING due.address
    )
    -- A due row that changed in this very moment counts towards the batch but
    -- is not deleted.
    SELECT count(*)::int, CASE WHEN (SELECT count(*) FROM due) = p_batch THEN max(gone.address) END
      INTO deleted, last
      FROM gone;
END;
$function$;

COMMENT ON FUNCTION guard.purge_batch(int, tid, tid, interval) IS
'Internal: one batch of the procedure purge. Deletes at most p_batch keys between two row addresses; last is the last
one''s address when there may be more of them, else null.';
