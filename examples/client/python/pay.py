"""Pays an order once, however often it is tried.

    PAYONCE_API_KEY=... python3 pay.py ORDER AMOUNT CURRENCY [PROVIDER]

AMOUNT is in minor units: 1000 CNY is 10.00 yuan. PAYONCE_URL says where payonce
is, PAYONCE_BUDGET for how many seconds to try (300). Run it again with the same
words to go on where it was. Exit code 0: paid. 1: refused for good. 2: not
known yet, whatever went wrong. 64: called in a wrong way.
"""

import http.client
import json
import os
import random
import re
import sys
import time
import traceback
import urllib.error
import urllib.request
import uuid
from email.utils import parsedate_to_datetime

URL = os.environ.get("PAYONCE_URL", "http://127.0.0.1:8080")
DEADLINE = time.monotonic() + float(os.environ.get("PAYONCE_BUDGET", "300"))
TIMEOUT = 40  # seconds for one try: longer than the server's --provider-deadline
PAID, REFUSED, UNKNOWN, USAGE = 0, 1, 2, 64


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Hands a redirect out as the answer: the api key goes to one address only."""

    def redirect_request(self, *_):
        return None


OPENER = urllib.request.build_opener(NoRedirect)


def key_of(order):
    """The order's key, and whether it is new. It is on disk before anything is
    sent; of two processes that make one at once, one wins and both use it."""
    path = f"{order}.key"
    new = not os.path.exists(path)
    if new:
        key = str(uuid.uuid4())
        draft = f"{path}.{key}"
        with open(draft, "x", encoding="ascii") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            new = False
        os.remove(draft)
    with open(path, encoding="ascii") as file:
        return file.read().strip(), new


def send(method, path, headers, body):
    """One try: status, headers and body. OSError or HTTPException: no answer."""
    request = urllib.request.Request(URL + path, data=body, headers=headers, method=method)
    timeout = max(1, min(TIMEOUT, DEADLINE - time.monotonic()))
    try:
        with OPENER.open(request, timeout=timeout) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, answer.headers, answer.read()


def retry_of(body):
    """What the problem says may be done; None for an answer that is not payonce's."""
    try:
        return json.loads(body)["retry"]
    except (ValueError, TypeError, KeyError):
        return None


def asked(retry_after):
    """A Retry-After (RFC 9110, 10.2.3), seconds or a date, in seconds. One that
    is neither counts 0."""
    if re.fullmatch(r"[0-9]+", retry_after or ""):
        return float(retry_after)
    try:
        return max(0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return 0


def pause(attempt, retry_after):
    """Waits what the server asks for and a random time besides; False when the
    budget would be spent."""
    wait = asked(retry_after) + random.uniform(0, min(10, 0.1 * 2 ** min(attempt, 10)))
    if time.monotonic() + wait >= DEADLINE:
        return False
    time.sleep(wait)
    return True


def until_answered(method, path, headers, body=None):
    """Sends the same bytes until there is an answer that a retry would not
    change: status, body, and how many tries went before. Status 0: the budget
    is spent."""
    attempt = 0
    while True:
        retry_after = None
        try:
            status, got, text = send(method, path, headers, body)
        except (OSError, http.client.HTTPException) as problem:
            print(f"no answer: {problem}", file=sys.stderr)
        else:
            if status not in (408, 429) and status < 500 and retry_of(text) != "same_key":
                return status, text, attempt
            print(f"{status}: {text.decode(errors='replace')}", file=sys.stderr)
            retry_after = got["Retry-After"]
        if not pause(attempt, retry_after):
            return 0, b"", attempt
        attempt += 1


def outcome(charge_id, headers):
    """Looks at the charge until the buyer has paid it, or never will."""
    attempt = 0
    while True:
        status, text, _ = until_answered("GET", f"/v1/charges/{charge_id}", headers)
        charge = json.loads(text) if status == 200 else {}
        if charge.get("status") == "succeeded":
            print(text.decode())
            return PAID
        if charge.get("status") == "failed":
            print(text.decode(), file=sys.stderr)
            return REFUSED
        if status != 200 or not pause(attempt, None):
            return UNKNOWN
        attempt += 1


def pay(order, amount, currency, provider="alipay"):
    key, new = key_of(order)
    headers = {"Authorization": "Bearer " + os.environ["PAYONCE_API_KEY"]}
    # The key belongs to these bytes: put nothing in that changes, such as a time.
    body = json.dumps({"order_id": order, "provider": provider, "amount": int(amount),
                       "currency": currency, "subject": f"Order {order}"}).encode()
    status, text, earlier = until_answered(
        "POST", "/v1/charges", {**headers, "Idempotency-Key": key, "Content-Type": "application/json"}, body)
    if status == 201:
        # What the buyer needs, if anything, stands in it: a link, a QR code.
        print("charge:", text.decode(), file=sys.stderr)
        return outcome(json.loads(text)["charge_id"], headers)
    print(f"{status}: {text.decode(errors='replace')}" if status else "the time is up", file=sys.stderr)
    if retry_of(text) in ("new_key", "never"):
        return REFUSED
    # Refused before the key was looked at, which tells nothing of earlier tries.
    return REFUSED if status and new and not earlier else UNKNOWN


def main(words):
    form = re.fullmatch(r"[A-Za-z0-9_-]{1,64} [1-9][0-9]{0,14} [A-Z]{3}", " ".join(words[:3]))
    if not form or len(words) > 4 or "PAYONCE_API_KEY" not in os.environ:
        print(__doc__, file=sys.stderr)
        return USAGE
    try:
        return pay(*words)
    except Exception:  # nothing that breaks here says that no money moved
        traceback.print_exc()
        return UNKNOWN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
