#!/usr/bin/env bash
# The bare engine beside llama-server (PyPI xllamacpp): same model, prompt and threads, five rounds
# in turn, medians. llama-server's figure is its own `timings`.
set -eu
cd "$(dirname "$0")/.."
venv=$(scripts/engines/install.sh llama-server)
exec "$venv/bin/python" scripts/bench_llama_server.py "$1"
