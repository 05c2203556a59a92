#!/bin/sh
# Runs golangci-lint at the given version, building it first when it is missing.
set -eu
version=$1
shift
bin=$(go env GOPATH)/bin/golangci-lint
if ! "$bin" version 2>/dev/null | grep -qF "${version#v}"; then
    go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
fi
exec "$bin" "$@"
