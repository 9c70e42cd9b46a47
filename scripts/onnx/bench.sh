#!/usr/bin/env bash
# The ONNX engine beside a bare Python loop on the same file, in turn.
#
# usage: bench.sh TANDEM [LENGTH…]
set -eu
cd "$(dirname "$0")/../.."
tandem=$1
shift
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
venv=$(scripts/onnx/install.sh)
folder=$home/engines/smollm2-135m-int8-onnx
[ -e "$folder/model.onnx" ] || "$tandem" onnx export -o "$folder"
exec "$venv/bin/python" scripts/onnx/bench.py "$tandem" "$folder" "$@"
