#!/usr/bin/env bash
# Brings Node 20 or later with npm: the machine's own, else from a PyPI wheel into .venv/node, else a
# message. A second run finds it there. Writes .venv/node-env, which is sourced before node.
set -eu
cd "$(dirname "$0")/.."
mkdir -p .venv
env=.venv/node-env

have() { command -v "$1" >/dev/null 2>&1; }

have_node() { have node && have npm && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ]; }

: >"$env.new"
if ! have_node; then
    # Debian's own may be older.
    if [ ! -x .venv/node/bin/node ]; then
        echo "set-up: Node from PyPI into .venv/node" >&2
        scripts/venv.sh .venv/node && scripts/pip.sh .venv/node scripts/node.txt || {
            echo "Node 20 or later is missing: install nodejs and npm, then run it again" >&2
            exit 1
        }
    fi
    echo "export PATH=\"$PWD/.venv/node/bin:\$PATH\"" >>"$env.new"
fi
mv "$env.new" "$env"
