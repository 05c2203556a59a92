#!/bin/sh
# Looks for known vulnerabilities in what the programs call, with govulncheck at
# the given version. Where vuln.go.dev cannot be reached, its database is made
# from module golang.org/x/vulndb, the repository that it is published from.
set -eu
version=$1
shift
if ! curl -fsS --max-time 10 -o /dev/null https://vuln.go.dev/index/db.json; then
    db=$(mktemp -d)
    trap 'rm -rf "$db"' EXIT
    source=$(go mod download -json golang.org/x/vulndb@latest | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    echo "vuln.go.dev does not answer: using ${source##*/}" >&2
    go run "golang.org/x/vulndb/cmd/indexdb@${source##*@}" -vulns "$source/data/osv" -out "$db"
    set -- -db "file://$db" "$@"
fi
go run "golang.org/x/vuln/cmd/govulncheck@$version" "$@"
