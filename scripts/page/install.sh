#!/usr/bin/env bash
# Brings what the page's tests need: Chromium, Node and the Node packages. With apt where we are
# root, else a message that names what is missing. A second run finds everything there.
set -eu
cd "$(dirname "$0")/../.."

have() { command -v "$1" >/dev/null 2>&1; }

fail() {
    echo "page tests: $*" >&2
    exit 1
}

missing() {
    have node || echo nodejs
    have npm || echo npm
    [ -x "${CHROMIUM:-/usr/bin/chromium}" ] || echo chromium
}

want=$(missing | tr '\n' ' ')
if [ -n "$want" ] && [ "$(id -u)" = 0 ] && have apt-get; then
    echo "page tests: installing $want" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $want; } >&2 ||
        echo "page tests: apt-get failed" >&2
    want=$(missing | tr '\n' ' ')
fi
[ -z "$want" ] ||
    fail "missing: $want- install them (Debian: apt-get install $want), or name a Chromium in CHROMIUM"
# The runner reads the tests' events, which Node has since version 20.
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] ||
    fail "Node $(node --version) is too old: install version 20 or later"

# The lock file that was installed from lies beside the packages: the same one means nothing to do.
cd tests/page
if [ ! -e node_modules/.from ] || ! cmp -s package-lock.json node_modules/.from; then
    npm ci --silent --no-audit --no-fund --ignore-scripts >&2 || fail "npm could not install the packages of tests/page"
    cp package-lock.json node_modules/.from
fi
