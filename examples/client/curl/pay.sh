#!/usr/bin/env bash
# Pays an order once, however often it is tried.
#
#     PAYONCE_API_KEY=... pay.sh ORDER AMOUNT CURRENCY [PROVIDER]
#
# AMOUNT is in minor units: 1000 CNY is 10.00 yuan. PAYONCE_URL says where payonce
# is, PAYONCE_BUDGET for how many seconds to try (300). Run it again with the same
# words to go on where it was. Exit code 0: paid. 1: refused for good. 2: not
# known yet, whatever went wrong. 64: called in a wrong way.
set -uo pipefail

paid=0 refused=1 unknown=2 usage=64
url=${PAYONCE_URL:-http://127.0.0.1:8080}
budget=${PAYONCE_BUDGET:-300}
timeout=40 # seconds for one try: longer than the server's --provider-deadline

words="${1-} ${2-} ${3-}" pattern='^[A-Za-z0-9_-]{1,64} [1-9][0-9]{0,14} [A-Z]{3}$'
if [ $# -gt 4 ] || ! [[ $words =~ $pattern ]] || [ -z "${PAYONCE_API_KEY:-}" ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit $usage
fi
order=$1 amount=$2 currency=$3 provider=${4:-alipay}
work=$(mktemp -d) || exit $unknown
trap 'rm -rf "$work"' EXIT

# The order's key is on disk before anything is sent. Of two processes that make
# one at once, one wins and both use it.
new=false
if [ ! -e "$order.key" ]; then
    key=$(cat /proc/sys/kernel/random/uuid 2>/dev/null || uuidgen) draft=$order.key.$key
    echo "$key" >"$draft" && sync "$draft" || exit $unknown
    ln "$draft" "$order.key" 2>/dev/null && new=true
    rm -f "$draft"
fi
key=$(cat "$order.key") && [ -n "$key" ] || exit $unknown

# The key belongs to these bytes: put nothing in that changes, such as a time.
printf '{"order_id":"%s","provider":"%s","amount":%s,"currency":"%s","subject":"Order %s"}' \
    "$order" "$provider" "$amount" "$currency" "$order" >"$work/body"

# send [CURL ARGUMENTS] URL: one try. Sets status; $work/answer is the body. The
# api key goes in by a file, since a command line can be seen by all.
printf 'Authorization: Bearer %s\n' "$PAYONCE_API_KEY" >"$work/authorization"
send() {
    local left=$((budget - SECONDS))
    : >"$work/answer" >"$work/headers"
    status=$(curl --silent --show-error --max-time $((left < 1 ? 1 : left < timeout ? left : timeout)) \
        --header "@$work/authorization" --dump-header "$work/headers" --output "$work/answer" \
        --write-out '%{http_code}' "$@")
}

# member NAME: a member of the JSON answer whose value is a plain string. That
# much sed can do with what payonce writes; a program would parse it.
member() { sed -n 's/.*"'"$1"'": *"\([A-Za-z0-9_]*\)".*/\1/p' "$work/answer"; }

# asked: the answer's Retry-After (RFC 9110, 10.2.3), seconds or a date, in
# seconds. One that is neither counts 0.
asked() {
    local value date
    value=$(sed -n 's/^[Rr]etry-[Aa]fter: *\([^[:cntrl:]]*\).*/\1/p' "$work/headers" | tail -n 1)
    if [[ $value =~ ^[0-9]+$ ]]; then
        echo "$value"
    elif [[ $value == *' GMT' ]] && date=$(date -d "$value" +%s 2>/dev/null) && [ "$date" -gt "$(date +%s)" ]; then
        echo $((date - $(date +%s)))
    else
        echo 0
    fi
}

# pause ATTEMPT [SECONDS]: waits what the server asks for and a random time
# besides; fails when the budget would be spent.
pause() {
    local wait
    wait=$(awk -v attempt="$1" -v asked="${2:-0}" -v random=$((RANDOM * 32768 + RANDOM)) 'BEGIN {
        most = attempt < 7 ? 0.1 * 2 ^ attempt : 10
        print asked + most * random / 1073741824 }')
    awk -v wait="$wait" -v left=$((budget - SECONDS)) 'BEGIN { exit !(wait < left) }' && sleep "$wait"
}

# until_answered [CURL ARGUMENTS] URL: sends the same bytes until there is an
# answer that a retry would not change. Sets status and earlier, the number of
# tries before it; fails when the budget is spent.
until_answered() {
    local retry_after
    for ((earlier = 0; ; earlier++)); do
        retry_after=0
        if send "$@"; then
            if [ "$status" != 408 ] && [ "$status" != 429 ] && [ "$status" -lt 500 ] &&
                [ "$(member retry)" != same_key ]; then
                return 0
            fi
            echo "$status: $(cat "$work/answer")" >&2
            retry_after=$(asked)
        fi
        pause "$earlier" "$retry_after" || return 1
    done
}

if ! until_answered --header "Idempotency-Key: $key" --header 'Content-Type: application/json' \
    --data-binary "@$work/body" "$url/v1/charges"; then
    echo "the time is up" >&2
    exit $unknown
fi
if [ "$status" != 201 ]; then
    echo "$status: $(cat "$work/answer")" >&2
    case $(member retry) in new_key | never) exit $refused ;; esac
    # Refused before the key was looked at, which tells nothing of earlier tries.
    if [ $new = true ] && [ "$earlier" = 0 ]; then exit $refused; fi
    exit $unknown
fi
# What the buyer needs, if anything, stands in it: a link, a QR code.
echo "charge: $(cat "$work/answer")" >&2

# Look at the charge until the buyer has paid it, or never will.
charge_id=$(member charge_id)
for ((look = 0; ; look++)); do
    until_answered "$url/v1/charges/$charge_id" && [ "$status" = 200 ] || exit $unknown
    case $(member status) in
    succeeded)
        cat "$work/answer" && echo
        exit $paid
        ;;
    failed)
        cat "$work/answer" >&2
        exit $refused
        ;;
    esac
    pause "$look" || exit $unknown
done
