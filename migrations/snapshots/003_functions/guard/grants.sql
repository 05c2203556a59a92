-- PUBLIC may execute nothing here. Runs after every install, since a new
-- function starts with EXECUTE for PUBLIC.
REVOKE ALL ON ALL TABLES IN SCHEMA guard FROM PUBLIC, payonce_app;
REVOKE ALL ON ALL ROUTINES IN SCHEMA guard FROM PUBLIC, payonce_app;
REVOKE USAGE ON TYPE guard.result FROM PUBLIC;
GRANT USAGE ON TYPE guard.result TO payonce_app;
GRANT EXECUTE ON FUNCTION
    guard.claim(text, text, text, bytea, interval, interval),
    guard.complete(text, text, bigint, int, jsonb, bytea),
    guard.release(text, text, bigint),
    guard.extend(text, text, bigint, interval),
    guard.abandon(text, text, bigint),
    guard.hold(text, text, bigint),
    guard.is_held(text, text),
    guard.inspect(text, text),
    guard.stats(),
    guard.sqlstates(),
    guard.version(),
    guard.purge_job(),
    guard.purge_batch(int, tid, tid, interval),
    guard.table_pages()
TO payonce_app;
GRANT EXECUTE ON PROCEDURE guard.purge(int, int, interval, float8) TO payonce_app;
