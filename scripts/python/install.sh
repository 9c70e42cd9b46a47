#!/usr/bin/env bash
# Brings what builds and tests the Python package, pinned, into .venv/python. Once: what was installed
# from is kept, and the same means nothing to do.
set -eu
cd "$(dirname "$0")/../.."
python=.venv/python
cmp -s scripts/python/requirements.txt "$python/from" && exit
echo "set-up: maturin, pytest, mypy and a notebook's kernel for Python" >&2
scripts/venv.sh "$python"
scripts/pip.sh "$python" scripts/python/requirements.txt
cp scripts/python/requirements.txt "$python/from"
