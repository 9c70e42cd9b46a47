#!/usr/bin/env bash
# What a device runs must not bring the workshop or what only the workshop needs: docs/build.md.
set -eu
cd "$(dirname "$0")/.."
tree=$(cargo tree --package tandem-cli --no-default-features --edges normal --prefix none)
grep -q '^tandem-router ' <<<"$tree" || { echo "cargo tree shows no tandem-router: is this the right tree?"; exit 1; }
found=$(grep -E '^(candle|plotters|tandem-lab)' <<<"$tree" | sort -u || true)
if [ -n "$found" ]; then
    echo "these belong to the workshop and are in the device build:"
    echo "$found"
    exit 1
fi
# Traces are asked for with the feature otel, and are in no other build.
for build in "" --no-default-features; do
    # shellcheck disable=SC2086 # an empty word would be an argument
    found=$(cargo tree --package tandem-cli $build --edges normal --prefix none | grep -E '^(opentelemetry|tracing-opentelemetry|prost)' | sort -u || true)
    if [ -n "$found" ]; then
        echo "these belong to the feature otel and are in the build ${build:-by default}:"
        echo "$found"
        exit 1
    fi
done
