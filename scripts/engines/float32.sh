#!/usr/bin/env bash
# Writes a model with 32-bit weights, once, and prints where it is: what engines say of it can be
# compared without the rounding of quantised arithmetic.
#
# usage: float32.sh TANDEM MODEL
set -eu
cd "$(dirname "$0")/../.."
tandem=$1 model=$2
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
out=$home/engines/$model-f32.gguf
if [ ! -e "$out" ]; then
    venv=$(scripts/engines/install.sh llama-server)
    path=$("$tandem" pull --list --json | python3 -c \
        "import json, sys; print(next(m['path'] for m in json.load(sys.stdin)['models'] if m['name'] == '$model'))")
    "$venv/bin/python" scripts/engines/float32.py "$path" "$out" >&2
fi
echo "$out"
