#!/usr/bin/env bash
# Holds the dependencies to deny.toml: licences, banned crates, sources, and faults that the RustSec
# database knows of. cargo-deny is compiled into .venv/tools the first time, which takes minutes; a
# second run finds it there and takes seconds. Where the database cannot be fetched, that part is left
# out and named: crates.io is enough for the rest.
set -eu
cd "$(dirname "$0")/.."
version=0.20.2
tools=$PWD/.venv/tools
deny=$tools/bin/cargo-deny
if [ "$("$deny" --version 2>/dev/null)" != "cargo-deny $version" ]; then
    echo "deny: compiling cargo-deny $version" >&2
    # Its own profile links everything as one piece, for a speed that a check of seconds does not need.
    CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 RUSTFLAGS= \
        CARGO_TARGET_DIR="$tools/target" cargo install --quiet --locked --root "$tools" \
        --no-default-features cargo-deny --version "=$version"
    rm -rf "$tools/target"
fi
checks="licenses bans sources"
if "$deny" --log-level error fetch db 2>"$tools/fetch.log"; then
    checks="advisories $checks"
else
    echo "deny: known faults are NOT checked, because the RustSec database cannot be fetched:" >&2
    tail -n 3 "$tools/fetch.log" >&2
fi
# Two versions of one crate are only a warning: `cargo tree --duplicates` shows who brings them.
"$deny" --log-level error check $checks
