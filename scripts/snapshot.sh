#!/bin/sh
# Copies sql/ into the migrations. Until the first tagged release there is one
# snapshot, and it is always what sql/ says.
set -eu
cd "$(dirname "$0")/.."
rm -rf migrations/snapshots/003_functions
mkdir -p migrations/snapshots/003_functions
cp -R sql/. migrations/snapshots/003_functions/
