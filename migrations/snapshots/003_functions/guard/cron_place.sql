-- Tells where pg_cron is, seen from this database.
--
-- pg_cron lives in one database of a cluster, the one that its setting
-- cron.database_name names:
-- https://github.com/citusdata/pg_cron#setting-up-pg_cron
CREATE OR REPLACE FUNCTION guard.cron_place(OUT place text, OUT database text)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF EXISTS (SELECT FROM pg_extension AS e WHERE e.extname = 'pg_cron') THEN
        place := 'here';
        database := current_database()::text;
        RETURN;
    END IF;
    -- A setting that stands in postgresql.conf while pg_cron is not loaded is
    -- not in this view.
    database := (SELECT s.setting FROM pg_settings AS s WHERE s.name = 'cron.database_name');
    -- Nor is it for a role that may not read it (as pg_read_all_settings may);
    -- but to be refused tells that pg_cron is loaded.
    IF database IS NULL THEN
        BEGIN
            PERFORM current_setting('cron.database_name', true);
        EXCEPTION
            WHEN insufficient_privilege THEN
                place := 'elsewhere';
                RETURN;
        END;
    END IF;
    place := CASE
        WHEN database IS NULL THEN 'not_loaded'
        WHEN database = current_database() THEN 'not_created'
        ELSE 'elsewhere'
    END;
END;
$function$;

COMMENT ON FUNCTION guard.cron_place() IS
'Internal: place of pg_cron: here, elsewhere (in another database; the database is null when the owner of this schema may
not read the setting, and may then be this one too), not_created (its database is this one, but CREATE EXTENSION has not
run) or not_loaded (not in shared_preload_libraries).';
