#!/usr/bin/env bash
# Compiles the program for any x86-64 machine since 2009 (x86-64-v2) or any 64-bit ARM, with
# llama.cpp's kernels for every kind of CPU as libraries beside it. Called by build.sh, in a room or
# here. Needs clang 16 or later: older compilers do not know all those CPUs.
set -eu
target=$1
export CARGO_TARGET_DIR=$target
# Clang's tuning for any CPU costs a Zen 4 or 5 a sixteenth of its prefill: its kernels are tuned for it.
# Cargo does not see that the compiler is another one, so what an older one made is removed.
tuned() {
    mkdir -p "$target/tools"
    printf '#!/bin/sh\ncase " $* " in *" -Dggml_cpu_zen4_EXPORTS "*) set -- "$@" -mtune=znver4 ;; esac\nexec %s "$@"\n' \
        "$2" >"$target/tools/$1.new"
    cmp -s "$target/tools/$1.new" "$target/tools/$1" || rm -rf "$target"/dist/build/llama-cpp-sys-2-*/
    mv "$target/tools/$1.new" "$target/tools/$1"
    chmod +x "$target/tools/$1"
    echo "$target/tools/$1"
}
CC=$(tuned clang "${CC:-clang-16}") CXX=$(tuned clang++ "${CXX:-clang++-16}")
export CC CXX
case $(uname -m) in
x86_64) cpu=x86-64-v2 ;;
*) cpu=generic ;;
esac
export RUSTFLAGS="-C target-cpu=$cpu"
# llama.cpp's build script links its libraries here and stumbles over those of an earlier build.
rm -f "$target"/dist/{.,deps,examples}/lib{llama,ggml}*.so*
cargo build --profile dist --package tandem-cli --features portable
