#!/usr/bin/env bash
# Brings the clients people use, pinned: those of OpenAI, Anthropic and Ollama and LangChain for Python
# into .venv/clients, and the first three for Node beside their tests. Once: what was installed from is
# kept, and the same means nothing to do.
set -eu
cd "$(dirname "$0")/../.."
python=.venv/clients/python
if ! cmp -s scripts/clients/requirements.txt "$python/from"; then
    echo "set-up: clients for Python" >&2
    scripts/venv.sh "$python"
    scripts/pip.sh "$python" scripts/clients/requirements.txt
    cp scripts/clients/requirements.txt "$python/from"
fi
scripts/node.sh
. .venv/node-env
cd tests/clients
if ! cmp -s package-lock.json node_modules/.from; then
    echo "set-up: clients for Node" >&2
    npm ci --silent --no-fund --no-audit --ignore-scripts >&2
    cp package-lock.json node_modules/.from
fi
