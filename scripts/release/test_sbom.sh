#!/usr/bin/env bash
# Tries the list of what a release is made of (scripts/release/sbom.py), with the format's own schema.
set -eu
cd "$(dirname "$0")/../.."
python=.venv/release
if ! cmp -s scripts/release/requirements.txt "$python/from"; then
    echo "set-up: the schema of CycloneDX" >&2
    scripts/venv.sh "$python"
    scripts/pip.sh "$python" scripts/release/requirements.txt
    cp scripts/release/requirements.txt "$python/from"
fi
echo "     Running scripts/release/test_sbom.py"
"$python/bin/python" scripts/release/test_sbom.py
