#!/usr/bin/env bash
# Builds the device's program and the whole one from nothing, one after the other, and prints what each
# costs: docs/build.md has the numbers. Wants an idle machine and takes a quarter of an hour and more.
set -eu
cd "$(dirname "$0")/.."
. .venv/env
printf '%-8s %8s %10s %12s %10s\n' build crates seconds bytes stripped
for build in device whole; do
    flags=()
    [ "$build" = whole ] || flags=(--no-default-features)
    folder=target/build-sizes/$build
    rm -rf "$folder"
    started=$(date +%s)
    CARGO_TARGET_DIR=$folder cargo build --quiet --release --package tandem-cli "${flags[@]}"
    seconds=$(($(date +%s) - started))
    program=$folder/release/tandem
    strip -o "$program.stripped" "$program"
    crates=$(cargo tree --package tandem-cli "${flags[@]}" --edges normal,build --prefix none | awk '{ print $1, $2 }' | sort -u | wc -l)
    printf '%-8s %8d %10d %12d %10d\n' "$build" "$crates" "$seconds" "$(stat -c %s "$program")" "$(stat -c %s "$program.stripped")"
    rm -rf "$folder"
done
