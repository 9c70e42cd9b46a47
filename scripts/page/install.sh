#!/usr/bin/env bash
# Brings what the page's tests need: Chromium, Node and the Node packages. Chromium with apt where we
# are root, else a message. A second run finds everything there.
set -eu
cd "$(dirname "$0")/../.."

have() { command -v "$1" >/dev/null 2>&1; }

fail() {
    echo "page tests: $*" >&2
    exit 1
}

have_chromium() { [ -x "${CHROMIUM:-/usr/bin/chromium}" ]; }

if ! have_chromium && [ -z "${CHROMIUM:-}" ] && [ "$(id -u)" = 0 ] && have apt-get; then
    echo "page tests: installing chromium" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >&2 ||
        echo "page tests: apt-get failed" >&2
fi
have_chromium ||
    fail "Chromium is missing: install it (Debian: apt-get install chromium), or name one in CHROMIUM"

scripts/node.sh
. .venv/node-env

# The lock file that was installed from lies beside the packages: the same one means nothing to do.
cd tests/page
if ! cmp -s package-lock.json node_modules/.from; then
    npm ci --silent --no-audit --no-fund --ignore-scripts >&2 || fail "npm could not install the packages of tests/page"
    cp package-lock.json node_modules/.from
fi
