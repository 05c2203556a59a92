// Charges an order once, whatever happens to the client or to this process.
//
// Needs pg (npm ci), the guard in the database, and a role with GRANT
// payonce_app. The PG* variables say where: PGDATABASE=shop node example.js
'use strict';

const { createHash } = require('node:crypto');
const { Client } = require('pg');

const CLAIM = `
SELECT outcome, fence, recovered, response_status, response_body, retry_after_ms
  FROM guard.claim(p_scope => 'shop', p_key => $1, p_request_path => $2,
                   p_request_hash => $3, p_lease => $4)`;
const COMPLETE = `
SELECT outcome, response_status, response_body
  FROM guard.complete(p_scope => 'shop', p_key => $1, p_fence => $2, p_status => 201,
                      p_headers => '{"Content-Type": "application/json"}', p_body => $3)`;
const RELEASE = `SELECT guard.release(p_scope => 'shop', p_key => $1, p_fence => $2)`;
const ABANDON = `SELECT guard.abandon(p_scope => 'shop', p_key => $1, p_fence => $2)`;

// The provider was never reached.
class NotSent extends Error {}

// Stands for a payment provider, which knows an order by its number.
class Provider {
  trades = [];
  fail = null;

  async find(orderId) {
    return this.trades.indexOf(orderId) + 1 || null;
  }

  async charge(orderId) {
    const fail = this.fail;
    this.fail = null;
    if (fail instanceof NotSent) throw fail;
    this.trades.push(orderId);
    if (fail) throw fail;
    return this.trades.length;
  }
}

// The fence is a bigint: pg hands it over as a string, and takes it back so.
async function claimKey(db, key, path, body, lease = '60 seconds') {
  const digest = createHash('sha256').update(body).digest();
  return (await db.query(CLAIM, [key, path, digest, lease])).rows[0];
}

// The answer to a request that did not get the key.
function answerWithoutWork(claim) {
  switch (claim.outcome) {
    case 'replay':
      return [claim.response_status, claim.response_body];
    case 'conflict':
      return [409, `at work, come back in ${claim.retry_after_ms} ms`];
    default:
      return [422, 'this key belongs to another request'];
  }
}

// Answers one request. No transaction is open here, so that the claim is
// stored before the provider is called.
async function charge(db, provider, key, body) {
  const claim = await claimKey(db, key, 'POST /charges', body);
  if (claim.outcome !== 'claimed') return answerWithoutWork(claim);

  const orderId = JSON.parse(body).order_id;
  let trade;
  try {
    // An earlier holder of the key may have charged already: ask first.
    trade = claim.recovered ? await provider.find(orderId) : null;
    trade ??= await provider.charge(orderId);
  } catch (error) {
    if (error instanceof NotSent) {
      await db.query(RELEASE, [key, claim.fence]); // a retry starts anew
      return [503, 'not charged, try again'];
    }
    await db.query(ABANDON, [key, claim.fence]); // a retry asks the provider
    return [504, 'in doubt, try again'];
  }

  const answer = Buffer.from(JSON.stringify({ order_id: orderId, trade }));
  const done = (await db.query(COMPLETE, [key, claim.fence, answer])).rows[0];
  if (done.outcome === 'completed' || done.outcome === 'replay') {
    return [done.response_status, done.response_body];
  }
  return [409, 'this holder was too slow, another one answers'];
}

// Answers one request whose whole effect is in this database: claim, own
// writes and complete are one transaction, kept or lost together.
async function placeOrder(db, key, body) {
  await db.query("SET LOCAL lock_timeout = '100ms'");
  const claim = await claimKey(db, key, 'POST /orders', body);
  if (claim.outcome !== 'claimed') return answerWithoutWork(claim);
  const orderId = JSON.parse(body).order_id;
  await db.query('INSERT INTO orders (order_id) VALUES ($1)', [orderId]);
  const answer = Buffer.from(`placed ${orderId}`);
  const done = (await db.query(COMPLETE, [key, claim.fence, answer])).rows[0];
  return [done.response_status, done.response_body];
}

async function inTransaction(db, work) {
  await db.query('BEGIN');
  try {
    const result = await work();
    await db.query('COMMIT');
    return result;
  } catch (error) {
    await db.query('ROLLBACK');
    throw error;
  }
}

function show(title, [status, body]) {
  console.log(`${title.padEnd(34)}${status} ${body}`);
}

async function main(db, other) {
  const provider = new Provider();
  await db.connect();
  await other.connect();
  await db.query('CREATE TEMPORARY TABLE orders (order_id text PRIMARY KEY)');

  let body = '{"order_id": "A1", "amount": 1000}';
  show('first request', await charge(db, provider, 'key-1', body));
  show('its retry', await charge(db, provider, 'key-1', body));
  show('same key, other amount', await charge(db, provider, 'key-1', '{"order_id": "A1", "amount": 9}'));

  body = '{"order_id": "A2", "amount": 1000}';
  const claim = await claimKey(db, 'key-2', 'POST /charges', body);
  show('while another request is at work', await charge(other, provider, 'key-2', body));
  await db.query(RELEASE, ['key-2', claim.fence]);
  provider.fail = new NotSent();
  show('provider out of reach', await charge(db, provider, 'key-2', body));
  provider.fail = new Error('timeout');
  show('provider answers too late', await charge(db, provider, 'key-2', body));
  show('retry asks the provider', await charge(db, provider, 'key-2', body));

  body = '{"order_id": "A3", "amount": 1000}';
  await claimKey(db, 'key-3', 'POST /charges', body, '100 milliseconds');
  await provider.charge('A3');
  // Here the process died. Its lease runs out, and the client tries again.
  await db.query('SELECT pg_sleep(0.2)');
  show('retry after a crash', await charge(db, provider, 'key-3', body));
  console.log('charged at the provider:', ...provider.trades);

  body = '{"order_id": "B1"}';
  await inTransaction(db, async () => {
    show('in one transaction', await placeOrder(db, 'key-4', body));
    try {
      await inTransaction(other, () => placeOrder(other, 'key-4', body));
    } catch (error) {
      if (error.code !== '55P03') throw error; // lock_not_available
      console.log('a second caller waits for it, no longer than lock_timeout');
    }
  });
  show('the second caller, afterwards', await inTransaction(other, () => placeOrder(other, 'key-4', body)));
  body = '{"order_id": "B2"}';
  await db.query('BEGIN');
  show('in a transaction rolled back', await placeOrder(db, 'key-5', body));
  await db.query('ROLLBACK');
  show('nothing is left of it', await inTransaction(db, () => placeOrder(db, 'key-5', body)));
}

const db = new Client();
const other = new Client();
main(db, other)
  .catch((error) => {
    console.error(error);
    process.exitCode = 1;
  })
  .finally(() => Promise.all([db.end(), other.end()]));
