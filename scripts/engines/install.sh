#!/usr/bin/env bash
# Installs an engine into a virtual environment of its own under the cache directory, pinned; a
# second call does nothing. Prints the environment's folder.
#
# usage: install.sh llama-server|vllm|sglang
set -eu
engine=$1
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
venv=$home/engines/$engine
from=$(dirname "$0")/$engine.txt
if [ ! -e "$from" ] || [ "$engine" = uv ]; then
    echo "no engine is called $engine" >&2
    exit 2
fi
if ! cmp -s "$from" "$venv/from"; then
    "$(dirname "$0")/../venv.sh" "$venv"
    "$(dirname "$0")/../pip.sh" "$venv" "$(dirname "$0")/uv.txt"
    # Several gigabytes, which uv brings and unpacks side by side.
    VIRTUAL_ENV=$venv "$venv/bin/uv" pip install -q --require-hashes --no-deps --only-binary :all: -r "$from" >&2
    cp "$from" "$venv/from"
fi
echo "$venv"
