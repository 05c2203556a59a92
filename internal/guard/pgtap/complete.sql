-- guard.complete
BEGIN;
SELECT plan(61);

-- The holder completes.
SELECT fence AS mine FROM claim() \gset
SELECT is(words(complete(:mine)), 'completed fence 201 {"Location": "/1"} done', 'completed, with what was stored');
SELECT results_eq(
    $$SELECT response_status, response_headers, response_body, completed_at BETWEEN now() AND clock_timestamp(),
             expires_at - completed_at
        FROM guard.idempotency_keys$$,
    $$VALUES (201, '{"Location": "/1"}'::jsonb, 'done'::bytea, true, interval '24 hours')$$,
    'it is stored, and lives for 24 hours from now');
SELECT everything() AS before \gset
SELECT is(words(complete(:mine, 'again')), 'replay 201 {"Location": "/1"} done', 'twice: the first response stands');
SELECT is(everything(), :'before', 'and nothing changes');

-- FF-07: a stale holder, while the next one is at work, and after.
SELECT fence AS stale FROM claim('taken over') \gset
SELECT elapse('61 seconds');
SELECT fence AS next FROM claim('taken over') \gset
SELECT everything() AS before \gset
SELECT is(words(complete(:stale, 'stale', 'taken over')), 'conflict retry', 'FF-07 stale: the new holder is at work');
SELECT is(everything(), :'before', 'FF-07 nothing changes');
SELECT elapse('61 seconds');
SELECT everything() AS before \gset
SELECT is(words(complete(:stale, 'stale', 'taken over')), 'conflict retry', 'FF-07 stale: the new holder''s lease is over too');
SELECT is(words(complete(:next + 1, 'stale', 'taken over')), 'conflict retry', 'a fence that was never given is stale too');
SELECT is(everything(), :'before', 'FF-07 nothing changes');
SELECT is(words(complete(:next, 'winner', 'taken over')), 'completed fence 201 {"Location": "/1"} winner',
          'a lease that is over stops nobody who was not replaced');
SELECT everything() AS before \gset
SELECT is(words(complete(:stale, 'stale', 'taken over')), 'replay 201 {"Location": "/1"} winner',
          'FF-07 stale: answers as the winner did');
SELECT is(everything(), :'before', 'FF-07 nothing changes');

-- The key is gone.
SELECT is(words(complete(1, 'done', 'never claimed')), 'gone', 'never claimed: gone');
SELECT fence AS mine FROM claim('released') \gset
SELECT guard.release('scope', 'released', :mine) \g /dev/null
SELECT is(words(complete(:mine, 'done', 'released')), 'gone', 'released: gone');
SELECT fence AS mine FROM claim('purged') \gset
SELECT elapse('40 days');
SELECT guard.purge_batch(p_batch => 100, p_from => '(0,0)', p_until => '(100,0)', p_in_doubt_grace => '30 days') \g /dev/null
SELECT is(words(complete(:mine, 'done', 'purged')), 'gone', 'purged: gone');
SELECT is(count(*), 0::bigint, 'nothing is stored then') FROM guard.idempotency_keys;

-- Work that outlasted the key's life.
SELECT fence AS mine FROM claim('late') \gset
SELECT elapse('30 hours');
SELECT is((complete(:mine, 'late', 'late')).outcome, 'completed', 'past its life, nobody took over: completed');
SELECT elapse('23 hours');
SELECT is(words(claim('late')), 'replay 201 {"Location": "/1"} late', 'the response lives from its completion');

-- A response lives for hours, and not for the days of the session's time
-- zone: here the clocks change within its life, whatever today is.
SELECT set_config('TimeZone', format('AAA0BBB,J%s/0,J%s/0', (today + 10) % 365 + 1, (today + 200) % 365 + 1), true)
  FROM CAST(extract(doy FROM now()) AS int) AS today \g /dev/null
SELECT fence AS mine FROM guard.claim('scope', 'clocks', 'POST /', sha256(''), p_ttl => '720 hours') \gset
SELECT is((complete(:mine, 'done', 'clocks')).outcome, 'completed', 'completed before the clocks change');
SELECT is(expires_at - completed_at, interval '720 hours', 'lives for its full time where the clocks change')
  FROM guard.idempotency_keys WHERE key = 'clocks';
SELECT cmp_ok(now() + interval '30 days', '<>', now() + interval '720 hours', 'they do change');
SET LOCAL TimeZone = 'UTC';

-- FF-16, FF-32: bytes are bytes.
CREATE TEMP TABLE bodies (what text, body bytea);
INSERT INTO bodies
SELECT 'all 256 byte values', string_agg(set_byte('\x00', 0, b), '' ORDER BY b) FROM generate_series(0, 255) AS b
UNION ALL VALUES
    ('nothing', ''::bytea),
    ('one zero byte', '\x00'),
    ('not UTF-8', '\xfffec0af'),
    ('gzip', '\x1f8b0800000000000003030000000000000000'),
    ('large numbers', '{"n": 12345678901234567890.10, "e": 1E400, "z": 1.0}'),
    ('duplicate names in their own order', '{"b": 1, "a": 2, "b": 3 }'),
    ('an escaped NUL, and a newline at the end', E'{"a": "\\\\u0000"}\n'),
    ('success', 'success'),
    ('a megabyte', repeat('0123456789abcdef', 65536)::bytea);
SELECT is(octet_length(body), 256, 'these are 256 bytes') FROM bodies WHERE what = 'all 256 byte values';
SELECT is((guard.complete('scope', what, c.fence, 200, NULL, body)).response_body, body, 'FF-16 FF-32 completed: ' || what)
  FROM bodies, LATERAL claim(what) AS c;
SELECT is((claim(what)).response_body, body, 'FF-16 FF-32 replayed: ' || what) FROM bodies;

-- FF-16: a status without a body; headers of any kind.
SELECT is(words(guard.complete('scope', 'empty', c.fence, 204, NULL, NULL)), 'completed fence 204 {} ', 'FF-16 null is empty')
  FROM claim('empty') AS c;
SELECT is(words(claim('empty')), 'replay 204 {} ', 'FF-16 and replayed as such');
SELECT is(words(guard.complete('scope', 'headers', c.fence, 599, '{"X": "é\"", "x": [1]}', 'b')),
          'completed fence 599 {"X": "é\"", "x": [1]} b', 'headers are kept')
  FROM claim('headers') AS c;
SELECT is(words(claim('headers')), 'replay 599 {"X": "é\"", "x": [1]} b', 'and replayed');
SELECT is((guard.complete('scope', 'lowest', c.fence, 100, '{}', '')).outcome, 'completed', 'the lowest status')
  FROM claim('lowest') AS c;

-- Limits.
SELECT throws_ok(format($$SELECT guard.complete(%s)$$, arguments), code, NULL, arguments)
  FROM (VALUES
    ('NULL, ''k'', 1, 200, NULL, NULL', 'IK001'),
    (''''', ''k'', 1, 200, NULL, NULL', 'IK001'),
    ('repeat(''s'', 256), ''k'', 1, 200, NULL, NULL', 'IK001'),
    ('''s'', NULL, 1, 200, NULL, NULL', 'IK002'),
    ('''s'', '''', 1, 200, NULL, NULL', 'IK002'),
    ('''s'', repeat(''k'', 256), 1, 200, NULL, NULL', 'IK002'),
    ('''s'', ''k'', NULL, 200, NULL, NULL', 'IK007'),
    ('''s'', ''k'', 1, NULL, NULL, NULL', 'IK008'),
    ('''s'', ''k'', 1, 99, NULL, NULL', 'IK008'),
    ('''s'', ''k'', 1, 600, NULL, NULL', 'IK008'),
    ('''s'', ''k'', 1, 200, ''[]'', NULL', 'IK009'),
    ('''s'', ''k'', 1, 200, ''"text"'', NULL', 'IK009'),
    ('''s'', ''k'', 1, 200, ''null'', NULL', 'IK009')
  ) AS bad (arguments, code);
SELECT is((guard.complete(repeat('🔑', 255), repeat('鍵', 255), 1, 200, NULL, NULL)).outcome, 'gone', 'as long as can be');

SELECT * FROM finish();
ROLLBACK;
