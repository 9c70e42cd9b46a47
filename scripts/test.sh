#!/usr/bin/env bash
# Runs every test and closes with the counts of all of them together.
set -u
cd "$(dirname "$0")/.."
. .venv/env
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# One test at a time: two models on the same cores run at a third of their speed.
RUST_BACKTRACE=0 cargo test --release --workspace --no-fail-fast -- --test-threads=1 2>&1 |
    tee "$log"
status=${PIPESTATUS[0]}
scripts/clients/test.sh target/release/tandem 2>&1 | tee -a "$log"
clients=${PIPESTATUS[0]}
scripts/page/test.sh 2>&1 | tee -a "$log"
page=${PIPESTATUS[0]}
scripts/report/test.sh 2>&1 | tee -a "$log"
report=${PIPESTATUS[0]}
awk '/^test result:/ { p += $4; f += $6 } /^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3 }
    END { printf "\nin all: %d passed, %d failed\n", p, f }' "$log"
[ "$status$clients$page$report" = 0000 ]
