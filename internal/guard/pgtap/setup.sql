-- What the tests of this folder share: short ways to call the functions, words
-- for what they answer, and a way to let time pass without waiting.
CREATE SCHEMA test;
CREATE EXTENSION pgtap SCHEMA test;
SET search_path = test;

CREATE FUNCTION claim(
    p_key text DEFAULT 'key', p_body text DEFAULT 'body', p_path text DEFAULT 'POST /v1/charges',
    p_scope text DEFAULT 'scope')
RETURNS guard.result LANGUAGE sql AS $$
    SELECT guard.claim(p_scope => p_scope, p_key => p_key, p_request_path => p_path,
                       p_request_hash => sha256(convert_to(p_body, 'UTF8')));
$$;

CREATE FUNCTION complete(p_fence bigint, p_response text DEFAULT 'done', p_key text DEFAULT 'key')
RETURNS guard.result LANGUAGE sql AS $$
    SELECT guard.complete(p_scope => 'scope', p_key => p_key, p_fence => p_fence, p_status => 201,
                          p_headers => '{"Location": "/1"}', p_body => convert_to(p_response, 'UTF8'));
$$;

-- An answer in words: every column that is not null, and retry when the wait
-- is one that may be asked for.
CREATE FUNCTION words(p_answer guard.result) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ',
        p_answer.outcome,
        CASE WHEN p_answer.fence > 0 THEN 'fence' END,
        CASE p_answer.recovered WHEN true THEN 'recovered' WHEN false THEN NULL ELSE 'recovered unknown' END,
        p_answer.response_status, p_answer.response_headers, encode(p_answer.response_body, 'escape'),
        CASE WHEN p_answer.retry_after_ms BETWEEN 1 AND 1000 THEN 'retry' ELSE p_answer.retry_after_ms::text END);
$$;

CREATE FUNCTION fence(p_key text DEFAULT 'key') RETURNS bigint LANGUAGE sql AS $$
    SELECT k.fence FROM guard.idempotency_keys AS k WHERE k.key = p_key;
$$;

-- Time passes: for every key, by moving its own times back.
CREATE FUNCTION elapse(p_time interval) RETURNS void LANGUAGE sql AS $$
    UPDATE guard.idempotency_keys
       SET locked_at = locked_at - p_time, lease_until = lease_until - p_time, created_at = created_at - p_time,
           completed_at = completed_at - p_time, expires_at = expires_at - p_time;
$$;

-- All rows, with their places in the table: equal only when nothing was written.
CREATE FUNCTION everything() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(k.ctid || ' ' || k, E'\n' ORDER BY k.key) FROM guard.idempotency_keys AS k;
$$;
