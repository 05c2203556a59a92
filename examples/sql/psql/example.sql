-- Every outcome of the guard, by hand.
--
-- Needs the guard in the database and a role with GRANT payonce_app:
--   psql -X -v ON_ERROR_STOP=1 -f example.sql shop
\set QUIET on
\pset footer off
\pset null -
\set body '{"order_id": "A1", "amount": 1000}'

\echo '# A first request claims its key, and nobody else can while it is at work.'
SELECT outcome, fence, recovered
  FROM guard.claim(p_scope => 'shop', p_key => 'key-1', p_request_path => 'POST /charges',
                   p_request_hash => sha256(convert_to(:'body', 'UTF8'))) \gset
\echo :outcome
SELECT outcome, retry_after_ms
  FROM guard.claim(p_scope => 'shop', p_key => 'key-1', p_request_path => 'POST /charges',
                   p_request_hash => sha256(convert_to(:'body', 'UTF8')));

\echo '# The work is done: its answer is stored under the key ...'
SELECT outcome
  FROM guard.complete(p_scope => 'shop', p_key => 'key-1', p_fence => :fence, p_status => 201,
                      p_headers => '{"Content-Type": "application/json"}',
                      p_body => convert_to('{"trade": 1}', 'UTF8'));

\echo '# ... and every retry gets it back.'
SELECT outcome, response_status, response_headers, convert_from(response_body, 'UTF8') AS body
  FROM guard.claim(p_scope => 'shop', p_key => 'key-1', p_request_path => 'POST /charges',
                   p_request_hash => sha256(convert_to(:'body', 'UTF8')));

\echo '# The key with another body is an error of the client.'
SELECT outcome
  FROM guard.claim(p_scope => 'shop', p_key => 'key-1', p_request_path => 'POST /charges',
                   p_request_hash => sha256('{"order_id": "A1", "amount": 9}'));

\echo '# The work surely had no effect: release the key, and a retry starts anew.'
SELECT fence
  FROM guard.claim(p_scope => 'shop', p_key => 'key-2', p_request_path => 'POST /charges',
                   p_request_hash => sha256(convert_to(:'body', 'UTF8'))) \gset
SELECT guard.release(p_scope => 'shop', p_key => 'key-2', p_fence => :fence);

\echo '# It may have had an effect: abandon the key. The next holder is told to ask first.'
SELECT fence
  FROM guard.claim(p_scope => 'shop', p_key => 'key-2', p_request_path => 'POST /charges',
                   p_request_hash => sha256(convert_to(:'body', 'UTF8'))) \gset
SELECT guard.abandon(p_scope => 'shop', p_key => 'key-2', p_fence => :fence);
SELECT outcome, recovered
  FROM guard.claim(p_scope => 'shop', p_key => 'key-2', p_request_path => 'POST /charges',
                   p_request_hash => sha256(convert_to(:'body', 'UTF8')));

\echo '# A holder that died says nothing: its lease runs out, which means the same.'
SELECT fence AS dead_fence
  FROM guard.claim(p_scope => 'shop', p_key => 'key-3', p_request_path => 'POST /charges',
                   p_request_hash => sha256(convert_to(:'body', 'UTF8')), p_lease => '100 milliseconds') \gset
DO $$ BEGIN PERFORM pg_sleep(0.2); END $$;
SELECT outcome, fence AS new_fence, recovered
  FROM guard.claim(p_scope => 'shop', p_key => 'key-3', p_request_path => 'POST /charges',
                   p_request_hash => sha256(convert_to(:'body', 'UTF8'))) \gset
SELECT :'outcome' AS outcome, :'recovered'::boolean AS recovered, :new_fence > :dead_fence AS newer_fence;

\echo '# Should the old holder come back, it changes nothing.'
SELECT outcome
  FROM guard.complete(p_scope => 'shop', p_key => 'key-3', p_fence => :dead_fence, p_status => 201,
                      p_headers => NULL, p_body => convert_to('{"trade": 2}', 'UTF8'));

\echo '# All in one transaction: claim, own writes and complete are kept or lost together.'
CREATE TEMPORARY TABLE orders (order_id text PRIMARY KEY);
BEGIN;
SET LOCAL lock_timeout = '2s';
SELECT outcome, fence
  FROM guard.claim(p_scope => 'shop', p_key => 'key-4', p_request_path => 'POST /orders',
                   p_request_hash => sha256('{"order_id": "B1"}')) \gset
INSERT INTO orders (order_id) VALUES ('B1');
SELECT outcome
  FROM guard.complete(p_scope => 'shop', p_key => 'key-4', p_fence => :fence, p_status => 201,
                      p_headers => NULL, p_body => convert_to('placed B1', 'UTF8'));
COMMIT;
SELECT outcome, convert_from(response_body, 'UTF8') AS body
  FROM guard.claim(p_scope => 'shop', p_key => 'key-4', p_request_path => 'POST /orders',
                   p_request_hash => sha256('{"order_id": "B1"}'));

\echo '# What an operator sees.'
SELECT key, state, request_path, response_status, response_bytes
  FROM guard.inspect(p_scope => 'shop', p_key => 'key-1');
SELECT total, held, in_doubt, completed
  FROM guard.stats();
