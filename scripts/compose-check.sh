#!/usr/bin/env bash
# Runs compose.yaml as docs/deploy.md says, and pays in it: through both
# providers, again after the server was killed, and looks at what there is then.
# Needs a Docker daemon, Compose, curl, and the base image (docker-base.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
export COMPOSE_PROJECT_NAME=payonce-check PAYONCE_PORT=0 SIMULATOR_PORT=0 # free ones
compose=scripts/compose.sh
work=$(mktemp -d)

end() {
    code=$?
    if [ $code != 0 ]; then $compose ps || true; $compose logs --tail 30 || true; fi
    $compose down --volumes --timeout 10 >/dev/null 2>&1 || true
    rm -rf "$work"
    exit $code
}
trap end EXIT

fail() {
    echo "compose-check: $*" >&2
    exit 1
}

equal() { [ "$1" = "$2" ] || fail "$3: $1, not $2"; }

# at SERVICE PORT: its address, which is another one after each start.
at() { echo "http://$($compose port "$1" "$2")"; }

# healthy SERVICE: waits until Docker calls it so.
healthy() {
    local state
    for _ in $(seq 60); do
        state=$(docker inspect --format '{{.State.Health.Status}}' "$($compose ps -q "$1")")
        if [ "$state" = healthy ]; then return; fi
        sleep 1
    done
    fail "$1 is $state: $(docker inspect --format '{{json .State.Health.Log}}' "$($compose ps -q "$1")")"
}

$compose config --quiet
equal "$(docker image inspect --format '{{.Config.User}}' payonce)" 65532:65532 "the image's user"
$compose up --detach >"$work/up" 2>&1 || fail "$(cat "$work/up")"
for service in database simulator server; do healthy $service; done

# block NAME prints the code block of docs/deploy.md after the marker
# <!-- NAME -->, with the ports that are used here.
block() {
    awk -v marker="<!-- $1 -->" '
        index($0, marker) { armed = 1; next }
        armed && /^```/ { if (inside) exit; inside = 1; next }
        inside { print }' docs/deploy.md |
        sed "s#http://127.0.0.1:8080#$(at server 8080)#; s#http://127.0.0.1:9090#$(at simulator 9090)#
             s#docker compose#scripts/compose.sh#; s#examples/client/curl/pay.sh#pay#"
}

# pay keeps its keys out of this folder.
pay() { (cd "$work" && "$OLDPWD/examples/client/curl/pay.sh" "$@"); }

export PAYONCE_BUDGET=120
block pay >"$work/block"
[ -s "$work/block" ] || fail "docs/deploy.md has no block pay"
. "$work/block" >"$work/first" 2>"$work/log" || fail "$(cat "$work/log")"
grep -q '"status":"succeeded"' "$work/first" || fail "the first charge: $(cat "$work/first")"
block look >"$work/block"
[ -s "$work/block" ] || fail "docs/deploy.md has no block look"
bash -euo pipefail "$work/block" >"$work/looked" 2>&1 || fail "$(cat "$work/looked")"

$compose kill -s SIGKILL server >/dev/null 2>&1
$compose up --detach >"$work/up" 2>&1 || fail "$(cat "$work/up")"
healthy server
PAYONCE_URL=$(at server 8080)
pay order-1 1000 CNY >"$work/second" 2>"$work/log" || fail "$(cat "$work/log")"
cmp "$work/first" "$work/second" || fail "the second run tells another charge"

curl -fsS "$PAYONCE_URL/v1/charges" -H "Authorization: Bearer $PAYONCE_API_KEY" -H 'Idempotency-Key: stripe-1' \
    -d '{"order_id":"order-2","provider":"stripe","amount":500,"currency":"USD","payment_method":"pm_card_visa"}' >"$work/stripe"
grep -q '"status":"succeeded"' "$work/stripe" || fail "the charge through Stripe: $(cat "$work/stripe")"

curl -fsS "$(at simulator 9090)/ledger" >"$work/ledger"
equal "$(grep -o '"out_trade_no":"order-1"' "$work/ledger" | wc -l)" 1 "charges of order-1 in the ledger"

query() { $compose exec -T database psql --no-psqlrc -U postgres -At payonce -c "$1"; }
equal "$(query "SELECT count(*) FROM cron.job WHERE active AND username = 'payonce_owner'")" 2 "pg_cron's jobs"
equal "$(query "SELECT DISTINCT usename FROM pg_stat_activity WHERE datname = 'payonce' AND client_addr IS NOT NULL")" \
    payonce_server "who is connected"

# A server that is told to stop says good-bye.
server=$($compose ps -q server)
$compose stop server >/dev/null 2>&1
equal "$(docker inspect --format '{{.State.ExitCode}}' "$server")" 0 "the server's exit code"
echo "compose-check: one charge of order-1, through a kill -9 of the server"
