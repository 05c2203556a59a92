#!/bin/sh
# Makes sure that there is a PostgreSQL for `make run`: nothing to do where
# server programs or PAYONCE_DATABASE_URL are there; installs them on Debian
# and Ubuntu, with pg_cron; says what to install everywhere else.
set -eu

have_server() {
    for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin; do
        if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then return 0; fi
    done
    command -v initdb >/dev/null 2>&1 && command -v postgres >/dev/null 2>&1
}

if [ -n "${PAYONCE_DATABASE_URL:-}" ] || have_server; then exit 0; fi

as_root=
if [ "$(id -u)" != 0 ]; then as_root=sudo; fi
if command -v apt-get >/dev/null 2>&1 && { [ -z "$as_root" ] || command -v sudo >/dev/null 2>&1; }; then
    echo "Installing PostgreSQL from your distribution's packages."
    $as_root apt-get update -qq
    # The package's own cluster is not needed: payonce runs a private one.
    $as_root mkdir -p /etc/postgresql-common
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        echo 'create_main_cluster = false' | $as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
    fi
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null
    version=$(ls /usr/lib/postgresql | sort -n | tail -n 1)
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "postgresql-$version-cron" >/dev/null ||
        echo "pg_cron is not packaged here; payonce purges expired keys by itself."
    exit 0
fi

echo "PostgreSQL is missing: install it (Homebrew: brew install postgresql@17), or set PAYONCE_DATABASE_URL." >&2
exit 1
