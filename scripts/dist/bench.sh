#!/usr/bin/env bash
# bench.sh NATIVE: the program of `make dist` beside the one built for this very CPU, in turn, several
# times; prints the ratio of the medians for each model: 1 is as fast, and 0.95 is what must hold.
set -eu
cd "$(dirname "$0")/../.."
native=$1
dist=target/dist/tandem-$(scripts/release/version.sh)-$(uname -m)-linux/bin/tandem
[ -x "$dist" ] || {
    echo "bench: $dist is missing: run 'make dist' first" >&2
    exit 1
}
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for model in smollm2-135m-instruct qwen2.5-coder-0.5b-instruct qwen2.5-coder-1.5b-instruct; do
    for _ in 1 2 3 4 5; do
        for build in native dist; do
            program=${!build}
            figures=$("$program" bench edge --edge-model "$model" --runs 1 --tokens 64 --json)
            echo "$model $build $figures" >>"$results"
        done
    done
done
python3 scripts/dist/ratios.py "$results"
