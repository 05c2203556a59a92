#!/bin/sh
# Installs axe-core, the accessibility checker that the console's tests run in a
# browser, outside the tree where it is not there yet, and prints its path.
set -eu
cd "$(dirname "$0")/../internal/console/axe"
cache=${PAYONCE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/payonce}
folder=$cache/axe-$(cksum <package-lock.json | cut -d ' ' -f 1)
if [ ! -e "$folder/complete" ]; then
    mkdir -p "$folder"
    cp package.json package-lock.json "$folder"
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund >&2)
    : >"$folder/complete"
fi
echo "$folder/node_modules/axe-core/axe.min.js"
