#!/bin/sh
# `make run`: a database, then `payonce dev`, that is database, simulator and server
# in one. Any other command of payonce may be named instead.
set -eu
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- dev
if scripts/install-postgres.sh; then exec go run ./cmd/payonce "$@"; fi

# No server programs here and none to be installed: a Docker daemon will do.
if ! docker info >/dev/null 2>&1; then exit 1; fi
echo "Using Docker for the database."
image=payonce-postgres-dev
docker build --quiet --tag "$image" internal/pgtest/image >/dev/null
container=$(docker run --detach --rm --publish 127.0.0.1::5432 "$image" postgres -c 'listen_addresses=*' \
    -c shared_preload_libraries=pg_cron -c cron.database_name=postgres -c cron.use_background_workers=on)
trap 'docker stop "$container" >/dev/null' EXIT INT TERM
address=$(docker port "$container" 5432/tcp | head -n 1)
until docker exec "$container" pg_isready --quiet --host 127.0.0.1; do sleep 0.2; done
PAYONCE_DATABASE_URL="postgres://postgres:payonce@$address/postgres?sslmode=disable" \
    PAYONCE_AUTO_MIGRATE=true go run ./cmd/payonce "$@"
