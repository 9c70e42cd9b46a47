#!/usr/bin/env bash
# Installs Python's ONNX tools into a virtual environment of their own under the cache directory,
# pinned; a second call does nothing. Prints the environment's folder.
#
# usage: install.sh [builder]   (builder: onnxruntime-genai and what its model builder needs, too)
set -eu
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
kind=${1:-tools}
venv=$home/engines/onnx-$kind
from=$(dirname "$0")/$kind.txt
if ! cmp -s "$from" "$venv/from"; then
    "$(dirname "$0")/../venv.sh" "$venv"
    "$(dirname "$0")/../pip.sh" "$venv" "$from"
    cp "$from" "$venv/from"
fi
echo "$venv"
