#!/bin/sh
# Makes the base image of our Dockerfiles where none can be pulled: a minimal
# Debian, bootstrapped from its packages and imported under the image's name.
set -eu
image=debian:bookworm-slim

if docker image inspect "$image" >/dev/null 2>&1; then exit 0; fi
if docker pull --quiet "$image" 2>/dev/null; then exit 0; fi

echo "docker-base: $image cannot be pulled; bootstrapping it from Debian's packages"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase bookworm "$root/debian" http://deb.debian.org/debian >"$root/log" 2>&1 ||
    { tail -n 20 "$root/log" >&2; exit 1; }
tar -C "$root/debian" -c . | docker import - "$image" >/dev/null
