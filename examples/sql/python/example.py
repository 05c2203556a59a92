"""Charges an order once, whatever happens to the client or to this process.

Needs psycopg 3 (Debian: python3-psycopg), the guard in the database, and a role
with GRANT payonce_app. The PG* variables say where: PGDATABASE=shop python3 example.py
"""

import hashlib
import json

import psycopg
from psycopg.rows import namedtuple_row

CLAIM = """
SELECT outcome, fence, recovered, response_status, response_body, retry_after_ms
  FROM guard.claim(p_scope => 'shop', p_key => %s, p_request_path => %s,
                   p_request_hash => %s, p_lease => %s)"""
COMPLETE = """
SELECT outcome, response_status, response_body
  FROM guard.complete(p_scope => 'shop', p_key => %s, p_fence => %s, p_status => 201,
                      p_headers => '{"Content-Type": "application/json"}', p_body => %s)"""
RELEASE = "SELECT guard.release(p_scope => 'shop', p_key => %s, p_fence => %s)"
ABANDON = "SELECT guard.abandon(p_scope => 'shop', p_key => %s, p_fence => %s)"


class NotSent(Exception):
    """The provider was never reached."""


class Provider:
    """Stands for a payment provider, which knows an order by its number."""

    def __init__(self):
        self.trades = []
        self.fail = None

    def find(self, order_id):
        return next((n for n, o in enumerate(self.trades, 1) if o == order_id), None)

    def charge(self, order_id):
        fail, self.fail = self.fail, None
        if fail is NotSent:
            raise NotSent
        self.trades.append(order_id)
        if fail:
            raise fail
        return len(self.trades)


def claim_key(db, key, path, body, lease="60 seconds"):
    digest = hashlib.sha256(body).digest()
    return db.execute(CLAIM, (key, path, digest, lease)).fetchone()


def answer_without_work(claim):
    """The answer to a request that did not get the key."""
    if claim.outcome == "replay":
        return claim.response_status, claim.response_body
    if claim.outcome == "conflict":
        return 409, b"at work, come back in %d ms" % claim.retry_after_ms
    return 422, b"this key belongs to another request"


def charge(db, provider, key, body):
    """Answers one request. db commits each statement by itself, so that the
    claim is stored before the provider is called."""
    claim = claim_key(db, key, "POST /charges", body)
    if claim.outcome != "claimed":
        return answer_without_work(claim)

    order_id = json.loads(body)["order_id"]
    try:
        # An earlier holder of the key may have charged already: ask first.
        trade = provider.find(order_id) if claim.recovered else None
        trade = trade or provider.charge(order_id)
    except NotSent:
        db.execute(RELEASE, (key, claim.fence))  # a retry starts anew
        return 503, b"not charged, try again"
    except Exception:
        db.execute(ABANDON, (key, claim.fence))  # a retry asks the provider
        return 504, b"in doubt, try again"

    answer = json.dumps({"order_id": order_id, "trade": trade}).encode()
    done = db.execute(COMPLETE, (key, claim.fence, answer)).fetchone()
    if done.outcome in ("completed", "replay"):
        return done.response_status, done.response_body
    return 409, b"this holder was too slow, another one answers"


def place_order(db, key, body):
    """Answers one request whose whole effect is in this database: claim, own
    writes and complete are one transaction, kept or lost together."""
    with db.transaction():
        db.execute("SET LOCAL lock_timeout = '100ms'")
        claim = claim_key(db, key, "POST /orders", body)
        if claim.outcome != "claimed":
            return answer_without_work(claim)
        order_id = json.loads(body)["order_id"]
        db.execute("INSERT INTO orders (order_id) VALUES (%s)", (order_id,))
        done = db.execute(COMPLETE, (key, claim.fence, b"placed " + order_id.encode())).fetchone()
        return done.response_status, done.response_body


def show(title, answer):
    print(f"{title:<34}{answer[0]} {answer[1].decode()}")


def connect():
    return psycopg.connect(autocommit=True, row_factory=namedtuple_row)


def run(db, other):
    provider = Provider()
    db.execute("CREATE TEMPORARY TABLE orders (order_id text PRIMARY KEY)")

    body = b'{"order_id": "A1", "amount": 1000}'
    show("first request", charge(db, provider, "key-1", body))
    show("its retry", charge(db, provider, "key-1", body))
    show("same key, other amount", charge(db, provider, "key-1", b'{"order_id": "A1", "amount": 9}'))

    body = b'{"order_id": "A2", "amount": 1000}'
    claim = claim_key(db, "key-2", "POST /charges", body)
    show("while another request is at work", charge(other, provider, "key-2", body))
    db.execute(RELEASE, ("key-2", claim.fence))
    provider.fail = NotSent
    show("provider out of reach", charge(db, provider, "key-2", body))
    provider.fail = TimeoutError()
    show("provider answers too late", charge(db, provider, "key-2", body))
    show("retry asks the provider", charge(db, provider, "key-2", body))

    body = b'{"order_id": "A3", "amount": 1000}'
    claim_key(db, "key-3", "POST /charges", body, lease="100 milliseconds")
    provider.charge("A3")
    # Here the process died. Its lease runs out, and the client tries again.
    db.execute("SELECT pg_sleep(0.2)")
    show("retry after a crash", charge(db, provider, "key-3", body))
    print("charged at the provider:", *provider.trades)

    body = b'{"order_id": "B1"}'
    with db.transaction():
        show("in one transaction", place_order(db, "key-4", body))
        try:
            place_order(other, "key-4", body)
        except psycopg.errors.LockNotAvailable:
            print("a second caller waits for it, no longer than lock_timeout")
    show("the second caller, afterwards", place_order(other, "key-4", body))
    with db.transaction():
        show("in a transaction rolled back", place_order(db, "key-5", b'{"order_id": "B2"}'))
        raise psycopg.Rollback
    show("nothing is left of it", place_order(db, "key-5", b'{"order_id": "B2"}'))


with connect() as first, connect() as second:
    run(first, second)
