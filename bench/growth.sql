-- Completed keys in bulk, as a table that has lived would hold them: random
-- UUIDs, so that the index is as scattered as clients make it. $1: rows.
INSERT INTO guard.idempotency_keys (
    scope, key, request_path, request_hash, fence, response_status, response_headers, response_body,
    locked_at, lease_until, completed_at, created_at, expires_at)
SELECT 'bench', gen_random_uuid()::text, 'POST /v1/charges', sha256('bench'),
       (extract(epoch FROM now()) * 1000000)::bigint + i, 201, $2::jsonb, $3::bytea,
       now(), now() + interval '1 minute', now(), now(), now() + $4::interval
  FROM generate_series(1, $1::bigint) AS i
