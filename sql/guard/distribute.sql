-- Spreads the keys over the workers of a Citus cluster, and runs each call on
-- the worker that holds its key. Citus: create_distributed_table and
-- create_distributed_function in
-- https://docs.citusdata.com/en/stable/develop/api_udf.html
CREATE OR REPLACE FUNCTION guard.distribute()
RETURNS void
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    c_table       CONSTANT text := 'guard.idempotency_keys';
    v_distributed boolean;
    v_function    record;
BEGIN
    IF to_regprocedure('create_distributed_function(regprocedure, text, text, boolean)') IS NULL THEN
        RAISE EXCEPTION 'Citus is not installed in database %: nothing is distributed', current_database()
            USING ERRCODE = 'IK013',
                  HINT = 'Install Citus 11 or newer on every node, set shared_preload_libraries = ''citus'', '
                         'restart, and run in this database, on every node: CREATE EXTENSION citus;';
    END IF;

    -- Citus distributes functions after a table in one transaction only when
    -- all of it goes over one connection to each worker.
    PERFORM set_config('citus.multi_shard_modify_mode', 'sequential', true);

    EXECUTE format('SELECT EXISTS (SELECT FROM pg_dist_partition AS d WHERE d.logicalrelid = %L::regclass)', c_table)
       INTO v_distributed;
    IF NOT v_distributed THEN
        EXECUTE format('SELECT create_distributed_table(%L, %L, colocate_with => %L)', c_table, 'key', 'none');
    END IF;

    FOR v_function IN
        SELECT p.oid::regprocedure AS signature, coalesce('p_key' = ANY (p.proargnames), false) AS by_key
          FROM pg_proc AS p
         WHERE p.pronamespace = 'guard'::regnamespace
           AND p.prokind = 'f'
           AND ('p_key' = ANY (p.proargnames) OR p.provolatile = 'i')
           -- A person's calls can run on the coordinator, where their log is.
           AND p.proname NOT LIKE 'operator\_%'
         ORDER BY p.proname
    LOOP
        IF v_function.by_key THEN
            EXECUTE format('SELECT create_distributed_function(%L, %L, %L)', v_function.signature, 'p_key', c_table);
        ELSE
            EXECUTE format('SELECT create_distributed_function(%L)', v_function.signature);
        END IF;
    END LOOP;
END;
$function$;

COMMENT ON FUNCTION guard.distribute() IS
'On a Citus cluster, to be called on the coordinator: distributes the table by key and the functions by p_key, so that
claim and complete run on the worker that holds the key. Safe to call again. purge does not reach the shards; docs/sql.md
says what does. Raises IK013 where Citus (11 or newer) is not installed in this database.';
