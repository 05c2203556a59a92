#!/bin/sh
# Installs the npm packages of examples/sql/node outside the tree and prints
# the folder, for NODE_PATH. With the argument "path" it only prints.
set -eu
cd "$(dirname "$0")/../examples/sql/node"
cache=${PAYONCE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/payonce}
folder=$cache/node-$(cksum <package-lock.json | cut -d ' ' -f 1)
if [ "${1:-}" != path ] && [ ! -e "$folder/complete" ]; then
    mkdir -p "$folder"
    cp package.json package-lock.json "$folder"
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund >&2)
    : >"$folder/complete"
fi
echo "$folder/node_modules"
