#!/usr/bin/env bash
# Serves a model with llama-server, in the foreground, on 127.0.0.1; SIGTERM stops it.
#
# usage: serve_llama-server.sh PORT KEY FOLDER   (beside FOLDER, FOLDER-f32.gguf holds the model)
set -eu
port=$1 key=$2 folder=$3
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
here=$(cd "$(dirname "$0")" && pwd)
# It ends with its input, which must therefore stay open.
exec "$home/engines/llama-server/bin/python" "$here/llama_server.py" --model "$folder-f32.gguf" \
    --port "$port" --key "$key" --context 4096 < <(exec sleep infinity)
