#!/usr/bin/env bash
# Runs the tests with kernels that this CPU would not choose, and closes with a table.
#
#   sse      everything cargo tests, by a program built for x86-64-v2: llama.cpp without AVX
#   haswell  the ONNX models on an emulated CPU with AVX2 and nothing newer
#   nehalem  the same on one without AVX: ONNX Runtime's oldest kernels
#
# ONNX Runtime chooses its kernels while it runs, by the CPU it finds, so the emulated ones need no
# program of their own. Needs what `make test` needs, and qemu-user for the emulated ones. The first
# time it builds everything once more, in a folder of its own.
#
# usage: test_cpus.sh [sse|haswell|nehalem ...]
set -u
cd "$(dirname "$0")/.."
. .venv/env
export CARGO_TARGET_DIR=$PWD/target/x86-64-v2 RUSTFLAGS="-C target-cpu=x86-64-v2" RUST_BACKTRACE=0
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
status=0

fail() {
    echo "test_cpus: $*" >&2
    exit 1
}

# Runs one kind's commands; what they print is counted, and told in the table.
try() {
    kind=$1
    shift
    "$@" 2>&1 | tee -a "$results/$kind"
    [ "${PIPESTATUS[0]}" = 0 ] || { status=1 && echo broken >>"$results/$kind.broken"; }
}

programs() {
    cargo test --release --workspace --exclude tandem-python --no-fail-fast "$@"
}

# The test program and every `tandem` it starts, on an emulated CPU: the models of every shape, and
# the small model written as ONNX.
emulated() {
    emulator="qemu-x86_64 -cpu $2"
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$emulator TANDEM_TEST_RUNNER=$emulator
    try "$1" programs --test it -- --test-threads=1 --exact \
        onnx::every_layout_has_the_outputs_of_a_plain_loop onnx::truncation_is_exact \
        onnx::steps_and_scores_are_those_of_reading_one_by_one onnx::two_sequences_do_not_mix \
        serial::onnx::an_exported_model_answers_alone_and_with_a_cloud
    unset CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER TANDEM_TEST_RUNNER
}

[ "$(uname -m)" = x86_64 ] || fail "these kinds are of x86-64; this machine is a $(uname -m)"
kinds=${*:-sse haswell nehalem}
for kind in $kinds; do
    case $kind in
    sse) ;;
    haswell | nehalem)
        command -v qemu-x86_64 >/dev/null ||
            fail "qemu-x86_64 is missing: install it (Debian: apt-get install qemu-user)"
        ;;
    *) fail "no kind is called $kind: there are sse, haswell and nehalem" ;;
    esac
done
programs --no-run || exit 1
for kind in $kinds; do
    echo "== $kind"
    case $kind in
    sse)
        try sse programs --lib --bins --tests -- --skip serial::
        try sse programs --test '*' -- --test-threads=1 serial::
        ;;
    haswell) emulated haswell Haswell ;;
    nehalem) emulated nehalem Nehalem ;;
    esac
done
echo
printf '%-10s %8s %8s\n' kind passed failed
for kind in $kinds; do
    awk -v kind="$kind" -v broken="$([ -e "$results/$kind.broken" ] && echo ', and something broke')" \
        '/^test result:/ { p += $4; f += $6 }
        END { printf "%-10s %8d %8d%s\n", kind, p, f, (broken != "" && f == 0) ? broken : "" }' \
        "$results/$kind"
done
exit "$status"
