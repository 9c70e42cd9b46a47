#!/usr/bin/env bash
# Starts `tandem serve` with the small model on both sides and lets official clients use it.
set -u
tandem=$1
cd "$(dirname "$0")/../.."
scripts/clients/install.sh || exit 1
. .venv/node-env
log=$(mktemp)
"$tandem" serve --pair tiny --listen 127.0.0.1:0 --api-key test-key --cloud-model smollm2-135m-instruct \
    --context 1024 2>"$log" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; rm -f "$log"' EXIT
for _ in $(seq 300); do
    url=$(sed -n 's/^listening on //p' "$log")
    [ -n "$url" ] && break
    kill -0 "$server" 2>/dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.1
done
[ -n "$url" ] || { echo "tandem serve did not start" >&2; exit 1; }
status=0
for client in openai_python anthropic_python ollama_python langchain_chat; do
    echo "     Running tests/clients/$client.py"
    .venv/clients/python/bin/python "tests/clients/$client.py" "$url" test-key || status=1
done
for client in openai_node anthropic_node ollama_node; do
    echo "     Running tests/clients/$client.mjs"
    node "tests/clients/$client.mjs" "$url" test-key || status=1
done
exit "$status"
