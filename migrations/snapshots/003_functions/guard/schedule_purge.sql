-- Lets pg_cron run purge, and trim its own log of those runs.
--
-- The job belongs to the owner of this schema, whoever calls. Statements about
-- schema cron are dynamic: the extension may come later, or never.
CREATE OR REPLACE FUNCTION guard.schedule_purge(p_schedule text DEFAULT '0 3 * * *')
RETURNS bigint
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
-- It cannot tell that the dynamic statements write.
-- @plpgsql_check_options: performance_warnings = off
DECLARE
    -- Two jobs, since purge commits and so has to be a statement of its own.
    -- Before 1.6.3 pg_cron noted no time for a run that could not connect;
    -- those rows are bounded by their number.
    c_trim     CONSTANT text :=
        'DELETE FROM cron.job_run_details AS d USING cron.job AS j '
        'WHERE j.jobid = d.jobid AND j.jobname LIKE ''payonce-purge%'' '
        'AND (coalesce(d.end_time, d.start_time) < now() - interval ''7 days'' '
        'OR (d.start_time IS NULL AND d.status = ''failed'' '
        'AND d.runid < (SELECT max(r.runid) - 10000 FROM cron.job_run_details AS r)))';
    c_trim_at  CONSTANT text := '17 4 * * *';
    v_place    text;
    v_database text;
    v_job      bigint;
BEGIN
    IF p_schedule IS NULL OR p_schedule = '' THEN
        RAISE EXCEPTION 'p_schedule must be a cron schedule' USING ERRCODE = 'IK011';
    END IF;

    SELECT c.place, c.database INTO v_place, v_database FROM guard.cron_place() AS c;
    CASE v_place
        WHEN 'elsewhere' THEN
            -- Job names are unique for each user of the whole cluster, so the
            -- name tells databases apart. Named after its owner, the job does
            -- not run the owner's code as a superuser.
            RAISE EXCEPTION 'pg_cron is not in database %: nothing is scheduled', current_database()
                USING ERRCODE = 'IK012',
                      HINT = concat_ws(E'\n',
                          coalesce(
                              'Run in database ' || quote_ident(v_database) || ', as a superuser:',
                              format('Where cron.database_name is %s, run CREATE EXTENSION pg_cron here. Otherwise '
                                     'run in the database that it names, as a superuser:', current_database())),
                          format('SELECT cron.schedule_in_database(%L, %L, %L, %L, %L);',
                                 'payonce-purge-' || current_database(), p_schedule, 'CALL guard.purge()',
                                 current_database(), current_user),
                          format('SELECT cron.schedule(%L, %L, %L);', 'payonce-purge-log', c_trim_at, c_trim));
        WHEN 'not_created' THEN
            RAISE EXCEPTION 'pg_cron is not in database %: nothing is scheduled', current_database()
                USING ERRCODE = 'IK012', HINT = 'Run here, as a superuser: CREATE EXTENSION pg_cron;';
        WHEN 'not_loaded' THEN
            RAISE EXCEPTION 'pg_cron is not loaded by this server: nothing is scheduled'
                USING ERRCODE = 'IK012',
                      HINT = format('Install it, set shared_preload_libraries = ''pg_cron'' and '
                                    'cron.database_name = %L, restart, and run here: CREATE EXTENSION pg_cron;',
                                    current_database());
        ELSE
            NULL;
    END CASE;

    IF NOT has_schema_privilege('cron', 'USAGE') THEN
        RAISE EXCEPTION 'role %, which owns the guard, may not use pg_cron', current_user
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('Run as a superuser: GRANT USAGE ON SCHEMA cron TO %I;', current_user);
    END IF;
    IF NOT (SELECT r.rolcanlogin FROM pg_roles AS r WHERE r.rolname = current_user) THEN
        RAISE EXCEPTION 'role %, which owns the guard and would run the job, may not log in', current_user
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('Run as a superuser: ALTER ROLE %I LOGIN;', current_user);
    END IF;

    -- Scheduled again under its name, an inactive job would stay inactive.
    EXECUTE format('SELECT count(cron.unschedule(j.jobid)) FROM cron.job AS j'
                   ' WHERE j.jobname IN (%L, %L) AND j.username = current_user AND NOT j.active',
                   'payonce-purge', 'payonce-purge-log');
    EXECUTE format('SELECT cron.schedule(%L, %L, %L)', 'payonce-purge-log', c_trim_at, c_trim);
    EXECUTE format('SELECT cron.schedule(%L, %L, %L)', 'payonce-purge', p_schedule, 'CALL guard.purge()') INTO v_job;
    RETURN v_job;
END;
$function$;

COMMENT ON FUNCTION guard.schedule_purge(text) IS
'Lets pg_cron call guard.purge() on p_schedule (every night at 3:00; ''* * * * *'' is every minute; pg_cron reads it as
GMT unless cron.timezone is set) as the owner of this schema, and delete that job''s run log after 7 days. Calling it
again changes the schedule. Returns the id of the job payonce-purge. Raises IK011 for a null or empty schedule, and IK012
where pg_cron is not in this database: the hint then holds the exact statements to run, and where. A schedule that
pg_cron cannot read is its error 22023. The owner needs LOGIN and USAGE on schema cron.';
