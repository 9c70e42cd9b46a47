#!/usr/bin/env bash
# wheel.sh PROGRAM: builds the Python package for this machine, with this program inside as the command
# `tandem`, and prints where the wheel is. It is for this kind of CPU, as every build but `make dist` is.
set -eu
program=$(realpath "$1")
cd "$(dirname "$0")/../.."
. .venv/env
scripts/python/install.sh
package=crates/python/python/tandem
wheels=${CARGO_TARGET_DIR:-target}/wheels
rm -rf "$package/bin" "$package/share" "$wheels"
mkdir -p "$package/bin" "$package/share/tandem" "$wheels"
strip -o "$package/bin/tandem" "$program"
cp -r presets "$package/share/tandem/"
wheels=$(realpath "$wheels")
# A plain tag: the tags of older systems would promise more than a build of this machine holds.
.venv/python/bin/maturin build --quiet --release --locked --compatibility linux \
    --interpreter .venv/python/bin/python --manifest-path crates/python/Cargo.toml --out "$wheels" >&2
echo "$wheels"/*.whl
