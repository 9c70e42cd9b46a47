#!/usr/bin/env bash
# Runs every test and closes with the counts of all of them together; `test.sh short` runs the loop's
# properties and the program with real models, to see on a new machine that it works.
set -u
cd "$(dirname "$0")/.."
. .venv/env || exit 1
log=$(mktemp)
trap 'rm -f "$log" "$log.times"' EXIT
status=0
try() {
    local started=$SECONDS
    "$@" 2>&1 | tee -a "$log"
    [ "${PIPESTATUS[0]}" = 0 ] || status=1
    printf '%5d s  %s\n' $((SECONDS - started)) "$*" >>"$log.times"
}
programs() {
    # The Python package is built and tested by scripts/python/test.sh.
    RUST_BACKTRACE=0 cargo test --release --workspace --exclude tandem-python --no-fail-fast "$@"
}
# A test that cannot run here says SKIPPED and passes, because Rust's harness knows no other way.
counts() {
    local skipped
    skipped=$(grep -o SKIPPED "$log" | wc -l)
    awk -v skipped="$skipped" '/^test result:/ { p += $4; f += $6 } /^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3 }
        END { printf "\nin all: %d passed, %d failed, %d skipped\n", p - skipped, f, skipped }' "$log"
    cat "$log.times"
    if [ "$skipped" != 0 ] && [ "$(id -u)" = 0 ]; then
        echo "root may do all that a test needs, so none may be skipped: the lines with SKIPPED say what was missing" >&2
        status=1
    fi
}
if [ "${1:-}" = short ]; then
    try cargo test --release --no-fail-fast --package tandem-decode
    try cargo test --release --no-fail-fast --package tandem-cli --test it -- --test-threads=1 serial::run
    counts
    exit "$status"
fi
# A documented command is tried as it is written, with curl.
command -v curl >/dev/null || {
    [ "$(id -u)" = 0 ] && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq curl
} >&2 || {
    echo "curl is missing: install it (Debian: apt-get install curl), then run make test again" >&2
    exit 1
}
try scripts/setup/test.sh
try scripts/release/test_sbom.sh
# First: it leaves the program without the workshop behind, and the next line makes the whole one again.
try cargo test --release --package tandem-cli --no-default-features --test no_lab
programs --no-run || exit 1
try programs --lib --bins --tests -- --skip serial::
# Of the whole workspace, although few crates have examples: the features of one crate alone are others, and
# much would be compiled again.
try programs --doc
# One at a time: two models on the same cores run at a third of their speed.
try programs --test '*' -- --test-threads=1 serial::
try scripts/clients/test.sh target/release/tandem
try scripts/python/test.sh target/release/tandem
try scripts/page/test.sh
try scripts/page/real.sh target/release/tandem chat compare
try scripts/report/test.sh
counts
exit "$status"
