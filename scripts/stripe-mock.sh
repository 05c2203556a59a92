#!/bin/sh
# Builds stripe-mock, Stripe's own fake of its API, where it is not there yet,
# and prints where it is.
set -eu
version=v0.203.0
folder=${PAYONCE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/payonce}/stripe-mock/$version
mkdir -p "$folder"
[ -x "$folder/stripe-mock" ] || GOBIN=$folder go install "github.com/stripe/stripe-mock@$version" >&2
echo "$folder/stripe-mock"
