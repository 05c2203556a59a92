-- Takes back what schedule_purge did.
CREATE OR REPLACE FUNCTION guard.unschedule_purge()
RETURNS boolean
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
-- It cannot tell that the dynamic statements write.
-- @plpgsql_check_options: performance_warnings = off
DECLARE
    v_place    text;
    v_database text;
    v_done     boolean;
BEGIN
    SELECT c.place, c.database INTO v_place, v_database FROM guard.cron_place() AS c;
    IF v_place = 'elsewhere' THEN
        RAISE EXCEPTION 'pg_cron is not in database %: its jobs are out of reach', current_database()
            USING ERRCODE = 'IK012',
                  HINT = concat_ws(E'\n',
                      format('Run in the database that cron.database_name names (%s), as a superuser:',
                             coalesce(v_database, 'unknown to the owner of the guard')),
                      format('SELECT cron.unschedule(jobid) FROM cron.job WHERE database = %L AND command = %L;',
                             current_database(), 'CALL guard.purge()'));
    END IF;
    IF v_place <> 'here' OR NOT has_schema_privilege('cron', 'USAGE') THEN
        RETURN false;
    END IF;

    EXECUTE format('DELETE FROM cron.job_run_details AS d USING cron.job AS j'
                   ' WHERE j.jobid = d.jobid AND j.jobname IN (%L, %L) AND j.username = current_user',
                   'payonce-purge', 'payonce-purge-log');
    EXECUTE format('SELECT count(cron.unschedule(j.jobid)) > 0 FROM cron.job AS j'
                   ' WHERE j.jobname IN (%L, %L) AND j.username = current_user',
                   'payonce-purge', 'payonce-purge-log')
       INTO v_done;
    RETURN v_done;
END;
$function$;

COMMENT ON FUNCTION guard.unschedule_purge() IS
'Removes the jobs of schedule_purge and the log of their runs. Returns false when there were none. Raises IK012 where
pg_cron is in another database: the hint then holds the exact statement to run, and where.';
