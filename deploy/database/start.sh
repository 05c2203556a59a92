#!/bin/sh
# Starts PostgreSQL. On an empty volume it makes the cluster first; one that was
# only half made is made anew. Needs OWNER_PASSWORD and SERVER_PASSWORD.
set -eu
data=/var/lib/postgresql/data/cluster
settings='-c shared_preload_libraries=pg_cron -c cron.database_name=payonce -c cron.use_background_workers=on'

if [ ! -e "$data" ]; then
    : "${OWNER_PASSWORD:?is needed}" "${SERVER_PASSWORD:?is needed}"
    rm -rf "$data.new"
    initdb --pgdata "$data.new" --username postgres --auth-local peer --auth-host scram-sha-256 \
        --encoding UTF8 --locale C.UTF-8
    echo 'host all all all scram-sha-256' >>"$data.new/pg_hba.conf"
    pg_ctl --pgdata "$data.new" --wait --options "-c listen_addresses='' $settings" start
    psql --no-psqlrc --set ON_ERROR_STOP=1 --file /setup.sql postgres
    pg_ctl --pgdata "$data.new" --wait stop
    sync
    mv "$data.new" "$data"
fi
# shellcheck disable=SC2086 # a list of options
exec postgres -D "$data" -c 'listen_addresses=*' $settings
