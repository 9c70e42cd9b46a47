#!/usr/bin/env bash
# Writes every list of Python packages anew (scripts/**/NAME.txt) from what is asked for there (NAME.in): all
# packages that are brought along, each at one version and with the hashes of its wheels.
#
# usage: lock.sh [NAME.in …]   (all of them)
set -eu
cd "$(dirname "$0")/.."
uv=.venv/uv
if ! cmp -s scripts/engines/uv.txt "$uv/from"; then
    scripts/venv.sh "$uv"
    scripts/pip.sh "$uv" scripts/engines/uv.txt
    cp scripts/engines/uv.txt "$uv/from"
fi
"$uv/bin/python" scripts/lock.py "$uv/bin/uv" "$@"
