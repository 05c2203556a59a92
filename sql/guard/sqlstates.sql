-- The registry of the errors that payonce's functions raise. Outcomes of
-- business are data and never stand here.
CREATE OR REPLACE FUNCTION guard.sqlstates()
RETURNS TABLE (sqlstate text, name text, meaning text)
LANGUAGE plpgsql
IMMUTABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY VALUES
        ('IK001', 'invalid_scope', 'the scope is null, empty or longer than 255 characters'),
        ('IK002', 'invalid_key', 'the key is null, empty or longer than 255 characters'),
        ('IK003', 'invalid_request_path', 'the request path is null, empty or longer than 2048 characters'),
        ('IK004', 'invalid_request_hash', 'the request hash is not 32 bytes'),
        ('IK005', 'invalid_lease', 'the lease is not above 0 and at most 1 day'),
        ('IK006', 'invalid_ttl', 'the time to live is shorter than the lease or longer than 3650 days'),
        ('IK007', 'invalid_fence', 'the fence is null'),
        ('IK008', 'invalid_status', 'the response status is not 100 to 599'),
        ('IK009', 'invalid_headers', 'the response headers are not a JSON object'),
        ('IK010', 'contention', 'the key changed hands too often during one claim; try again'),
        ('IK011', 'invalid_purge', 'a parameter of purge or schedule_purge is out of range'),
        ('IK012', 'pg_cron_missing', 'pg_cron is not in this database; the hint says what to do'),
        ('IK013', 'citus_missing', 'Citus is not in this database; the hint says what to do'),
        ('IK014', 'invalid_operation', 'a parameter of an operator''s function is out of range'),
        ('IK101', 'invalid_charge', 'a parameter of a payments function is out of range'),
        ('IK102', 'journal_is_append_only', 'the journal refuses UPDATE, DELETE and TRUNCATE');
END;
$function$;

COMMENT ON FUNCTION guard.sqlstates() IS
'The SQLSTATEs (class IK) that these functions raise, with name and meaning.';
