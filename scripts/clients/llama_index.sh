#!/usr/bin/env bash
# LlamaIndex with tools and an agent against `tandem serve`.
#
# usage: llama_index.sh TANDEM
set -u
cd "$(dirname "$0")/../.."
. scripts/clients/serve.sh
environment llama_index || exit 1
start_server "$1" --context 2048 || exit 1
.venv/clients/llama_index/bin/python tests/clients/llama_index_tools.py "$url" "$key"
