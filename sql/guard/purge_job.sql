-- Tells how the scheduled purge fares. Reads pg_cron's whole run log: for
-- operators and a once-a-minute metric, not for requests.
CREATE OR REPLACE FUNCTION guard.purge_job()
RETURNS TABLE (
    extension    text,
    database     text,
    schedule     text,
    active       boolean,
    last_status  text,
    last_message text,
    last_run_at  timestamptz,
    log_rows     bigint
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    SELECT c.place, c.database INTO extension, database FROM guard.cron_place() AS c;
    IF extension = 'here' AND has_schema_privilege('cron', 'USAGE') THEN
        EXECUTE format($query$
            SELECT j.schedule, j.active, r.status, r.return_message, coalesce(r.end_time, r.start_time),
                   (SELECT count(*)
                      FROM cron.job_run_details AS d
                      JOIN cron.job AS o ON o.jobid = d.jobid
                     WHERE o.jobname IN (%1$L, %2$L) AND o.username = j.username)
              FROM cron.job AS j
              LEFT JOIN LATERAL (
                   SELECT d.status, d.return_message, d.start_time, d.end_time
                     FROM cron.job_run_details AS d
                    WHERE d.jobid = j.jobid AND d.status IN ('succeeded', 'failed')
                    ORDER BY d.runid DESC
                    LIMIT 1) AS r ON true
             WHERE j.jobname = %1$L AND j.username = current_user
            $query$, 'payonce-purge', 'payonce-purge-log')
           INTO schedule, active, last_status, last_message, last_run_at, log_rows;
    END IF;
    RETURN NEXT;
END;
$function$;

COMMENT ON FUNCTION guard.purge_job() IS
'One row about the job of schedule_purge. extension: here, elsewhere (pg_cron is in another database, where the job has
to be looked for; database is null when the owner of this schema may not know which), not_created or not_loaded. schedule
is null when there is no such job; active tells whether pg_cron runs it. last_status (succeeded or failed), last_message
and last_run_at are of the newest finished run; before 1.6.3 pg_cron notes no time when it cannot connect. log_rows counts
the rows that the two jobs have in pg_cron''s run log.';
