#!/usr/bin/env bash
# Compiles the program for any x86-64 machine since 2009 (x86-64-v2) or any 64-bit ARM, with
# llama.cpp's kernels for every kind of CPU as libraries beside it. Called by build.sh, in a room or
# here. Needs clang 16 or later: older compilers do not know all those CPUs.
set -eu
target=$1
export CC=${CC:-clang-16} CXX=${CXX:-clang++-16} CARGO_TARGET_DIR=$target
case $(uname -m) in
x86_64) cpu=x86-64-v2 ;;
*) cpu=generic ;;
esac
export RUSTFLAGS="-C target-cpu=$cpu"
# llama.cpp's build script links its libraries here and stumbles over those of an earlier build.
rm -f "$target"/dist/{.,deps,examples}/lib{llama,ggml}*.so*
cargo build --profile dist --package tandem-cli --features portable
