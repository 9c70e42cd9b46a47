#!/usr/bin/env bash
# Builds the fuzz targets with coverage and AddressSanitizer, as cargo-fuzz does, and runs each for some
# seconds from the committed corpora. Needs a nightly toolchain of rustup's, and what every build needs.
#
# usage: fuzz.sh [SECONDS] [TARGET…]   (20 seconds, all targets)
set -eu
cd "$(dirname "$0")/.."
. .venv/env
seconds=${1:-20}
shift $(($# > 0 ? 1 : 0))
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo 'make fuzz needs the nightly toolchain: rustup toolchain install nightly --profile minimal' >&2
    exit 1
fi
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
# Of Rust alone: llama.cpp is compiled and linked as it always is.
flags='--cfg fuzzing -Zsanitizer=address -Ccodegen-units=1 -Cdebug-assertions -Cpasses=sancov-module'
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    flags="$flags -Cllvm-args=-sanitizer-coverage-$option"
done
targets=${*:-$(cd fuzz/fuzz_targets && ls | sed 's/\.rs$//')}
bins=$(printf -- '--bin %s ' $targets)
RUSTFLAGS=$flags cargo +nightly build --quiet --release --target "$host" --manifest-path fuzz/Cargo.toml $bins
# Targets write what they try to files: in memory, where there is a place for that.
files=/dev/shm
[ -w "$files" ] || files=${TMPDIR:-/tmp}
TMPDIR=$(mktemp -d -p "$files")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
for target in $targets; do
    # What is new goes to a folder of its own, so that the committed corpora stay small.
    mkdir -p "fuzz/found/$target" "fuzz/artifacts/$target"
    log=fuzz/artifacts/$target.log
    # What is still held at the end is no fault here: a model and its threads live as long as the process.
    if ! "fuzz/target/$host/release/$target" "fuzz/found/$target" "fuzz/corpus/$target" \
        -artifact_prefix="fuzz/artifacts/$target/" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=2048 -detect_leaks=0 -print_final_stats=1 >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        echo "$target: failed; what it was given is in fuzz/artifacts/$target" >&2
        exit 1
    fi
    tries=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    memory=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
    echo "$target: $tries inputs in $seconds s, $memory MB at most, nothing found"
done
