-- Deletes keys past their life, a commit per batch.
--
-- A procedure that commits can be neither SECURITY DEFINER nor pin its
-- search_path: it runs as its caller, names everything in full and leaves all
-- that touches the table to purge_batch.
CREATE OR REPLACE PROCEDURE guard.purge(
    p_batch          int DEFAULT 500,
    p_max_batches    int DEFAULT NULL,
    p_in_doubt_grace interval DEFAULT '30 days',
    p_share          float8 DEFAULT 0.1
)
LANGUAGE plpgsql
SECURITY INVOKER
AS $procedure$
DECLARE
    -- Pages a batch may look at: bounds how long its row locks are held when
    -- few rows are due.
    c_pages  CONSTANT pg_catalog.int8 := 2048::pg_catalog.int8;
    v_page   pg_catalog.int8 := 0::pg_catalog.int8;
    v_pages  pg_catalog.int8;
    v_from   pg_catalog.tid := '(0,0)'::pg_catalog.tid;
    v_until  pg_catalog.tid;
    v_done   pg_catalog.int4 := 0;
    v_batch  record;
    v_began  pg_catalog.timestamptz;
BEGIN
    IF p_batch IS NULL OR p_batch OPERATOR(pg_catalog.<) 1 OR p_batch OPERATOR(pg_catalog.>) 100000 THEN
        RAISE EXCEPTION 'p_batch must be 1 to 100000' USING ERRCODE = 'IK011';
    END IF;
    IF p_max_batches OPERATOR(pg_catalog.<) 1 THEN
        RAISE EXCEPTION 'p_max_batches must be at least 1, or null for no bound' USING ERRCODE = 'IK011';
    END IF;
    IF p_in_doubt_grace IS NULL OR p_in_doubt_grace OPERATOR(pg_catalog.<) interval '0' THEN
        RAISE EXCEPTION 'p_in_doubt_grace must not be negative' USING ERRCODE = 'IK011';
    END IF;

    IF p_share IS NULL OR NOT (p_share OPERATOR(pg_catalog.>) 0.0::pg_catalog.float8
                               AND p_share OPERATOR(pg_catalog.<=) 1.0::pg_catalog.float8) THEN
        RAISE EXCEPTION 'p_share must be above 0 and at most 1' USING ERRCODE = 'IK011';
    END IF;
    -- Whatever the caller's default is: above READ COMMITTED a key that is
    -- claimed at the wrong moment would end the purge with 40001.
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    v_pages := guard.table_pages();
    v_began := pg_catalog.clock_timestamp();
    WHILE v_page OPERATOR(pg_catalog.<) v_pages LOOP
        v_until := pg_catalog.format('(%s,0)', v_page OPERATOR(pg_catalog.+) c_pages)::pg_catalog.tid;
        SELECT b.deleted, b.last INTO v_batch
          FROM guard.purge_batch(p_batch => p_batch, p_from => v_from, p_until => v_until,
                                 p_in_doubt_grace => p_in_doubt_grace) AS b;
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        -- Claims share the disk and the cores with this: it works for a share of
        -- the time and rests for what is left, so that it is felt by few of them.
        IF p_share OPERATOR(pg_catalog.<) 1.0::pg_catalog.float8 THEN
            PERFORM pg_catalog.pg_sleep(
                pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) v_began)
                OPERATOR(pg_catalog.*) (1.0::pg_catalog.float8 OPERATOR(pg_catalog.-) p_share)
                OPERATOR(pg_catalog./) p_share);
            v_began := pg_catalog.clock_timestamp();
        END IF;
        IF v_batch.deleted OPERATOR(pg_catalog.>) 0 THEN
            v_done := v_done OPERATOR(pg_catalog.+) 1;
            EXIT WHEN v_done OPERATOR(pg_catalog.>=) p_max_batches;
        END IF;
        IF v_batch.last IS NOT NULL THEN
            v_from := v_batch.last;
        ELSE
            v_page := v_page OPERATOR(pg_catalog.+) c_pages;
            v_from := v_until;
        END IF;
    END LOOP;
END;
$procedure$;

COMMENT ON PROCEDURE guard.purge(int, int, interval, float8) IS
'Deletes keys past their life: completed ones at once, never-completed ones (evidence of work in doubt) only after a
further p_in_doubt_grace, and never one whose lease is running. Commits after each batch of p_batch rows (1 to 100000),
skips rows that others have locked, so call it outside a transaction. p_max_batches bounds one call; null means all.
p_share (0.1; above 0, at most 1): the share of the time that it works; it rests after each batch, for the sake of claims.
Housekeeping only: no answer of claim depends on it. Raises IK011 for arguments out of range.';
