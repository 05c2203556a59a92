#!/bin/sh
# Installs what `make test` needs beside Go: PostgreSQL with the extensions that
# the tests use, PgBouncer, Redis (for the benchmark), Prometheus (for the alert
# rules and the dashboard), Chromium and axe-core (for the console), the drivers of the SQL examples, Stripe's fake of its
# API, and PostgreSQL 16 to 18. On Debian and Ubuntu from their packages, with
# root or sudo; elsewhere a test that misses something says what.
set -eu
cd "$(dirname "$0")/.."

if command -v dpkg >/dev/null 2>&1; then
    needed='gcc libc6-dev curl openssl postgresql-client pgbouncer redis-server prometheus python3-psycopg libpostgresql-jdbc-java default-jdk-headless'
    # A newer Node.js, with its own npm, may be there already.
    command -v npm >/dev/null 2>&1 || needed="$needed nodejs npm"
    # So may a browser of Chromium's kin.
    command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || needed="$needed chromium"
    # PAYONCE_POSTGRES_VERSION chooses another PostgreSQL than Debian's own.
    version=${PAYONCE_POSTGRES_VERSION:-$(apt-cache policy postgresql 2>/dev/null | sed -n 's/^  Candidate: \([0-9]*\).*/\1/p')}
    for extension in '' -cron -pgtap -plpgsql-check; do
        needed="$needed postgresql-${version:-15}$extension"
    done
    missing=
    for package in $needed; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    if [ -n "$missing" ]; then
        as_root=
        if [ "$(id -u)" != 0 ]; then as_root=sudo; fi
        echo "Installing what the tests need:$missing"
        # The packages' own clusters and services are not needed.
        $as_root mkdir -p /etc/postgresql-common
        [ -e /etc/postgresql-common/createcluster.conf ] ||
            echo 'create_main_cluster = false' | $as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
        $as_root apt-get update -qq
        # shellcheck disable=SC2086 # a list of packages
        $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $missing >/dev/null
        # Its service would take the simulator's port, 9090, at the next start of the machine.
        case "$missing" in
            *prometheus*) $as_root systemctl disable prometheus >/dev/null 2>&1 || true ;;
        esac
    fi
fi
scripts/fetch-postgres.sh
scripts/node-driver.sh >/dev/null
scripts/axe.sh >/dev/null
scripts/stripe-mock.sh >/dev/null
