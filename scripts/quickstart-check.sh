#!/usr/bin/env bash
# Runs the quick start as a newcomer does: `make run` in a clean folder, then
# the curl line of each README, twice; compares with what the README promises.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
work=$(mktemp -d)
chmod 755 "$work" # the account that runs PostgreSQL has to pass through
run_pid=
stop() {
    if [ -n "$run_pid" ]; then
        kill -TERM -- "-$run_pid" 2>/dev/null || true
        wait "$run_pid" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap stop EXIT

fail() {
    echo "quickstart: $*" >&2
    echo "--- the end of make run's output:" >&2
    tail -n 30 "$work/run.log" >&2 || true
    exit 1
}

git clone --quiet "$root" "$work/payonce"
cd "$work/payonce"
set -m
make run >"$work/run.log" 2>&1 &
run_pid=$!
set +m

for _ in $(seq 600); do
    if curl -fsS -o /dev/null http://127.0.0.1:8080/readyz 2>/dev/null; then break; fi
    kill -0 "$run_pid" 2>/dev/null || fail "make run ended"
    sleep 0.5
done

# readme_block FILE NAME prints the code block after the marker <!-- NAME -->.
readme_block() {
    awk -v marker="<!-- $2 -->" '
        index($0, marker) { armed = 1; next }
        armed && /^```/ { if (inside) exit; inside = 1; next }
        inside { print }' "$1"
}

readme_block README.md curl >"$work/curl.sh"
[ -s "$work/curl.sh" ] || fail "README.md has no curl block"
readme_block README.md curl | diff - <(readme_block README.zh-CN.md curl) || fail "the READMEs show different curl lines"
tr -d '\r' <"$work/run.log" | grep -qF "$(head -n 1 "$work/curl.sh")" || fail "make run printed another curl line than the README"

bash "$work/curl.sh" >"$work/first" 2>/dev/null
bash "$work/curl.sh" >"$work/second" 2>/dev/null
for answer in first second; do
    { tr -d '\r' <"$work/$answer"; echo; } >"$work/$answer.txt"
done

grep -q '^HTTP/1.1 201 Created' "$work/first.txt" || fail "the first answer: $(cat "$work/first.txt")"
grep -q '^HTTP/1.1 201 Created' "$work/second.txt" || fail "the second answer: $(cat "$work/second.txt")"
grep -q '^Idempotency-Replayed:' "$work/first.txt" && fail "the first answer was a replay"
grep -q '^Idempotency-Replayed: true' "$work/second.txt" || fail "the second answer was no replay"
cmp <(tail -n 1 "$work/first.txt") <(tail -n 1 "$work/second.txt") || fail "the two bodies differ"

# What differs between two runs is masked: numbers, ids and times, and whether
# Alipay's notification came before the answer.
mask() {
    sed -E -e 's/^(\{"charge_id".*"status":)"(pending|succeeded)"/\1"…"/' \
        -e 's/^(X-Request-Id|Date|Content-Length|Location): .*/\1: …/' \
        -e 's/"(charge_id|paid_charge_id|trade_no|created_at|updated_at)":"[^"]*"/"\1":"…"/g'
}
for readme in README.md README.zh-CN.md; do
    diff <(readme_block "$readme" first-answer | mask) <(mask <"$work/first.txt") || fail "$readme shows another first answer"
    diff <(readme_block "$readme" second-answer | mask) <(mask <"$work/second.txt") || fail "$readme shows another second answer"
done

for readme in README.md README.zh-CN.md; do
    readme_block "$readme" order >"$work/order.sh"
    for _ in $(seq 50); do
        { bash "$work/order.sh"; echo; } >"$work/order.txt" 2>/dev/null
        if grep -q '"status":"paid"' "$work/order.txt"; then break; fi
        sleep 0.1
    done
    diff <(readme_block "$readme" order-answer | mask) <(mask <"$work/order.txt") || fail "$readme shows another order"
done

ledger=$(curl -fsS http://127.0.0.1:9090/ledger)
[ "$(grep -o '"kind":"charge"' <<<"$ledger" | wc -l)" = 1 ] || fail "the ledger shows not one charge: $ledger"
echo "quickstart: 201, then the same bytes replayed, one charge in the ledger"
