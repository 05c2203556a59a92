-- payonce: the guard alone, version {{ . }}.
--
-- Idempotency keys in PostgreSQL 15 or newer: claim a key before the work,
-- store the response with it, replay that response to every retry. Nothing
-- else of payonce is needed, and no extension.
--
-- Install:   psql -v ON_ERROR_STOP=1 -f this_file mydb
-- Use:       GRANT payonce_app TO my_service;  then guard.claim, guard.complete
-- Manual:    \df+ guard.*
--
-- Run it as the role that shall own schema guard. That role needs CREATE on the
-- database, or an empty schema guard of its own; and CREATEROLE, unless role
-- payonce_app exists already (CREATE ROLE payonce_app NOLOGIN). Where schema guard
-- exists, everything is done as its owner, whoever runs the file.
--
-- All of it is one transaction. It may run again, it brings an older guard up
-- to this version in place while traffic goes on, it keeps every key, and it
-- refuses to replace a newer version.
--
-- Uninstall: SELECT guard.unschedule_purge();  -- where pg_cron runs the purge
--            DROP SCHEMA guard CASCADE;        -- with every key and response
--            DROP ROLE payonce_app;            -- when no other database uses it

BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;

SET LOCAL client_min_messages = warning;
SET LOCAL standard_conforming_strings = on;

DO $do$
DECLARE
    v_owner     text;
    v_installed int;
BEGIN
    -- The lock that `payonce migrate` holds too (through tern).
    PERFORM pg_catalog.pg_advisory_xact_lock(9628173550095224);
    IF pg_catalog.current_setting('server_version_num')::int < 150000 THEN
        RAISE EXCEPTION 'the guard needs PostgreSQL 15 or newer, this is %',
            pg_catalog.current_setting('server_version');
    END IF;
    IF pg_catalog.to_regprocedure('guard.version()') IS NOT NULL THEN
        EXECUTE 'SELECT guard.version()' INTO v_installed;
        IF v_installed > {{ . }} THEN
            RAISE EXCEPTION 'guard version % is installed, this file has the older version {{ . }}', v_installed
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
    END IF;
    -- The functions run as their owner: a superuser who upgrades must not leave
    -- some of them running as a superuser.
    SELECT pg_catalog.pg_get_userbyid(n.nspowner) INTO v_owner
      FROM pg_catalog.pg_namespace AS n
     WHERE n.nspname = 'guard' AND pg_catalog.pg_get_userbyid(n.nspowner) <> current_user;
    IF FOUND THEN
        EXECUTE pg_catalog.format('SET LOCAL ROLE %I', v_owner);
    END IF;
END;
$do$;
