#!/usr/bin/env bash
# Starts `tandem serve` with the small model on both sides and lets official clients use it.
set -u
cd "$(dirname "$0")/../.."
scripts/clients/install.sh || exit 1
. .venv/node-env
. scripts/clients/serve.sh
start_server "$1" --context 1024 || exit 1
status=0
for client in openai_python anthropic_python ollama_python langchain_chat; do
    echo "     Running tests/clients/$client.py"
    .venv/clients/python/bin/python "tests/clients/$client.py" "$url" "$key" || status=1
done
for client in openai_node anthropic_node ollama_node; do
    echo "     Running tests/clients/$client.mjs"
    node "tests/clients/$client.mjs" "$url" "$key" || status=1
done
exit "$status"
