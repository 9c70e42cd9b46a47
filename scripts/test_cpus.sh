#!/usr/bin/env bash
# Runs tests with real models with kernels that this CPU would not choose, and closes with a table.
#
#   sse      llama.cpp's kernels for SSE 4.2 alone
#   haswell  an emulated CPU with AVX2 and nothing newer: the program, llama.cpp and ONNX Runtime
#   nehalem  the same without AVX: the oldest kernels of all three
#
# The tests are those that start the program; it is that of `make dist`, because it runs on all these CPUs
# and loads its kernels when it starts. Emulated, a model is a hundred times slower: only a few tests are.
#
# usage: test_cpus.sh [sse|haswell|nehalem ...]
set -u
cd "$(dirname "$0")/.."
. .venv/env
export RUST_BACKTRACE=0
name=tandem-$(scripts/release/version.sh)-x86_64-linux
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0

fail() {
    echo "test_cpus: $*" >&2
    exit 1
}

# Runs the tests that are named by parts of their names, with a program that is started this way.
try() {
    local kind=$1 emulator=$2
    shift 2
    # What cargo built is the first argument; the program of `make dist` runs in its place.
    printf '#!/bin/sh\nshift\nexec %s "$0.tree/bin/tandem" "$@"\n' "$emulator" >"$scratch/$kind"
    chmod +x "$scratch/$kind"
    mkdir "$scratch/$kind.tree"
    tar -xzf "dist/$name.tar.gz" -C "$scratch/$kind.tree" --strip-components=1 || fail "dist/$name.tar.gz is damaged: run 'make dist'"
    [ "$kind" != sse ] || find "$scratch/sse.tree/lib" -name 'libggml-cpu-*' ! -name '*-sse42.so' -delete
    TANDEM_TEST_RUNNER=$scratch/$kind \
        cargo test --release --workspace --exclude tandem-python --no-fail-fast --test it -- --test-threads=1 "$@" 2>&1 |
        tee "$scratch/$kind.log"
    [ "${PIPESTATUS[0]}" = 0 ] || status=1
}

[ "$(uname -m)" = x86_64 ] || fail "these kinds are of x86-64; this machine is a $(uname -m)"
[ -e "dist/$name.tar.gz" ] || fail "dist/$name.tar.gz is missing: run 'make dist' first"
kinds=${*:-sse haswell nehalem}
emulated="serial::onnx::an_exported_model_answers_alone_and_with_a_cloud"
for kind in $kinds; do
    echo "== $kind"
    case $kind in
    sse)
        try sse "" serial::run:: serial::chat:: serial::demo:: serial::errors:: serial::live:: serial::onnx:: serial::pairs::
        ;;
    haswell | nehalem)
        command -v qemu-x86_64 >/dev/null || fail "qemu-x86_64 is missing: install it (Debian: apt-get install qemu-user)"
        try "$kind" "qemu-x86_64 -cpu ${kind^}" $emulated
        ;;
    *) fail "no kind is called $kind: there are sse, haswell and nehalem" ;;
    esac
done
echo
printf '%-10s %8s %8s\n' kind passed failed
for kind in $kinds; do
    awk -v kind="$kind" '/^test result:/ { p += $4; f += $6 } END { printf "%-10s %8d %8d\n", kind, p, f }' "$scratch/$kind.log"
done
exit "$status"
