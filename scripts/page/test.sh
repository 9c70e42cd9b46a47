#!/usr/bin/env bash
# Tests the page in headless Chromium: against a mock of the server, or with TANDEM_URL against a
# running `tandem serve`. Arguments choose test files by a part of their name.
set -eu
cd "$(dirname "$0")/../.."
scripts/page/install.sh
. .venv/node-env
exec node tests/page/run.js "$@"
