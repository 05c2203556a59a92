// Pays an order once, however often it is tried.
//
//     PAYONCE_API_KEY=... node pay.js ORDER AMOUNT CURRENCY [PROVIDER]
//
// AMOUNT is in minor units: 1000 CNY is 10.00 yuan. PAYONCE_URL says where
// payonce is, PAYONCE_BUDGET for how many seconds to try (300). Run it again
// with the same words to go on where it was. Exit code 0: paid. 1: refused for
// good. 2: not known yet, whatever went wrong. 64: called in a wrong way.
//
// Needs Node.js 18 or newer.
'use strict';

const { randomUUID } = require('node:crypto');
const fs = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');

const url = process.env.PAYONCE_URL ?? 'http://127.0.0.1:8080';
const now = () => performance.now() / 1000;
const deadline = now() + Number(process.env.PAYONCE_BUDGET ?? 300);
const timeout = 40; // seconds for one try: longer than the server's --provider-deadline
const [PAID, REFUSED, UNKNOWN, USAGE] = [0, 1, 2, 64];

// The order's key, and whether it is new. It is on disk before anything is
// sent; of two processes that make one at once, one wins and both use it.
function keyOf(order) {
  const path = `${order}.key`;
  let fresh = !fs.existsSync(path);
  if (fresh) {
    const key = randomUUID();
    const draft = `${path}.${key}`;
    const file = fs.openSync(draft, 'wx');
    fs.writeSync(file, key);
    fs.fsyncSync(file);
    fs.closeSync(file);
    try {
      fs.linkSync(draft, path);
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
      fresh = false;
    }
    fs.unlinkSync(draft);
  }
  return { key: fs.readFileSync(path, 'ascii').trim(), fresh };
}

// One try. It throws when no answer came, or not to its end. A redirect is an
// answer: the api key goes to one address only.
async function send(method, path, headers, body) {
  const left = Math.max(1, Math.min(timeout, deadline - now()));
  const signal = AbortSignal.timeout(Math.ceil(left * 1000));
  const answer = await fetch(url + path, { method, headers, body, signal, redirect: 'manual' });
  return { status: answer.status, retryAfter: answer.headers.get('Retry-After'), text: await answer.text() };
}

// What the problem says may be done; undefined for an answer that is not payonce's.
function retryOf(text) {
  try {
    return JSON.parse(text)?.retry;
  } catch {
    return undefined;
  }
}

// A Retry-After (RFC 9110, 10.2.3), seconds or a date, in seconds. One that is
// neither counts 0.
function asked(retryAfter) {
  if (/^\d+$/.test(retryAfter ?? '')) return Number(retryAfter);
  const date = / GMT$/.test(retryAfter ?? '') ? Date.parse(retryAfter) : NaN;
  return date > Date.now() ? (date - Date.now()) / 1000 : 0;
}

// Waits what the server asks for and a random time besides; false when the
// budget would be spent.
async function pause(attempt, retryAfter) {
  const wait = asked(retryAfter) + Math.random() * Math.min(10, 0.1 * 2 ** attempt);
  if (now() + wait >= deadline) return false;
  await sleep(wait * 1000);
  return true;
}

// Sends the same bytes until there is an answer that a retry would not change:
// status, text, and how many tries went before. Status 0: the budget is spent.
async function untilAnswered(method, path, headers, body) {
  for (let attempt = 0; ; attempt++) {
    let retryAfter;
    try {
      const answer = await send(method, path, headers, body);
      const { status, text } = answer;
      if (status !== 408 && status !== 429 && status < 500 && retryOf(text) !== 'same_key') {
        return { status, text, earlier: attempt };
      }
      console.error(`${status}: ${text}`);
      ({ retryAfter } = answer);
    } catch (error) {
      console.error(`no answer: ${error.cause ?? error}`);
    }
    if (!(await pause(attempt, retryAfter))) return { status: 0, text: '', earlier: attempt };
  }
}

// Looks at the charge until the buyer has paid it, or never will.
async function outcome(chargeId, headers) {
  for (let attempt = 0; ; attempt++) {
    const { status, text } = await untilAnswered('GET', `/v1/charges/${chargeId}`, headers);
    const charge = status === 200 ? JSON.parse(text) : {};
    if (charge.status === 'succeeded') {
      console.log(text);
      return PAID;
    }
    if (charge.status === 'failed') {
      console.error(text);
      return REFUSED;
    }
    if (status !== 200 || !(await pause(attempt))) return UNKNOWN;
  }
}

async function pay(order, amount, currency, provider = 'alipay') {
  const { key, fresh } = keyOf(order);
  const headers = { Authorization: `Bearer ${process.env.PAYONCE_API_KEY}` };
  // The key belongs to these bytes: put nothing in that changes, such as a time.
  const body = JSON.stringify({
    order_id: order, provider, amount: Number(amount), currency, subject: `Order ${order}`,
  });
  const { status, text, earlier } = await untilAnswered('POST', '/v1/charges',
    { ...headers, 'Idempotency-Key': key, 'Content-Type': 'application/json' }, body);
  if (status === 201) {
    // What the buyer needs, if anything, stands in it: a link, a QR code.
    console.error('charge:', text);
    return outcome(JSON.parse(text).charge_id, headers);
  }
  console.error(status ? `${status}: ${text}` : 'the time is up');
  if (['new_key', 'never'].includes(retryOf(text))) return REFUSED;
  // Refused before the key was looked at, which tells nothing of earlier tries.
  return status && fresh && !earlier ? REFUSED : UNKNOWN;
}

async function main(words) {
  const form = /^[\w-]{1,64} [1-9]\d{0,14} [A-Z]{3}$/.test(words.slice(0, 3).join(' '));
  if (!form || words.length > 4 || !process.env.PAYONCE_API_KEY) {
    console.error('usage: PAYONCE_API_KEY=... node pay.js ORDER AMOUNT CURRENCY [PROVIDER]');
    return USAGE;
  }
  try {
    return await pay(...words);
  } catch (error) { // nothing that breaks here says that no money moved
    console.error(error);
    return UNKNOWN;
  }
}

main(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
