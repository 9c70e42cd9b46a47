#!/usr/bin/env bash
# Opens reports of made-up results in headless Chromium. With SHOTS=FOLDER it leaves screenshots.
set -eu
cd "$(dirname "$0")/../.."
scripts/page/install.sh
. .venv/node-env
exec node tests/report/run.mjs
