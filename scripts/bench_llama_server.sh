#!/usr/bin/env bash
# The bare engine beside llama-server (PyPI xllamacpp): same model, prompt and threads, five rounds
# in turn, medians. llama-server's figure is its own `timings`.
set -eu
cd "$(dirname "$0")/.."
venv=.venv/llama-server
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q 'xllamacpp==2026.10.11549'
fi
exec "$venv/bin/python" scripts/bench_llama_server.py "$1"
