#!/usr/bin/env bash
# Brings what the build needs besides Rust: a C++ compiler, cmake and libclang. Nothing is taken for
# there because a file has the right name: the compiler compiles, cmake answers, and libclang is
# loaded and reads a header. What does not prove itself is brought, with apt where we are root, else
# cmake and libclang as PyPI wheels into .venv. Writes .venv/env, which is sourced before cargo and
# names the very libclang that was proven.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p .venv
env=.venv/env
wheels=$PWD/.venv/wheels
rm -f "$env"

say() { echo "set-up: $*" >&2; }
fail() {
    say "$@"
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

compiles() {
    # In the checkout, because a temporary folder may forbid running what is in it.
    printf '#include <string>\n#include <thread>\nint main() { return std::string("x").size() - 1; }\n' >.venv/probe.cpp
    c++ -std=c++17 -pthread .venv/probe.cpp -o .venv/probe 2>.venv/probe.log && .venv/probe &&
        echo 'int main(void) { return 0; }' >.venv/probe.c && cc .venv/probe.c -o .venv/probe 2>>.venv/probe.log
}
cmake_runs() { cmake --version >/dev/null 2>&1; }
pip_runs() { python3 -m pip --version >/dev/null 2>&1; }
find_libclang() { python3 scripts/setup/libclang.py "$wheels/clang/native" 2>.venv/libclang.log >.venv/libclang; }

# The Debian packages of what does not work, one a line.
missing() {
    compiles || echo g++
    pip_runs || echo python3-pip
    cmake_runs || echo cmake
    find_libclang || echo libclang-dev
}
spaced() { tr '\n' ' ' | sed 's/ $//'; }

have cargo || fail "cargo is missing: install Rust with rustup (https://rustup.rs), then run make again"
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
found=$(cargo --version 2>.venv/probe.log | sed 's/^cargo \([0-9.]*\).*/\1/')
[ -n "$found" ] || {
    cat .venv/probe.log >&2
    fail "cargo does not run: run 'rustup default stable', then make again"
}
[ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ] ||
    fail "this Rust is $found, and $wanted is needed: run 'rustup update', then make again"

# Whoever names a library means that one: no other is looked for, and none that is brought would be used.
[ -z "${LIBCLANG_PATH:-}" ] || find_libclang || {
    cat .venv/libclang.log >&2
    fail "LIBCLANG_PATH=$LIBCLANG_PATH names no libclang that works: unset it or correct it, then run make again"
}

[ -d "$wheels/cmake" ] && PATH="$wheels/cmake/data/bin:$PATH"
want=$(missing | spaced)
if [ -n "$want" ] && [ "$(id -u)" = 0 ] && have apt-get; then
    say "installing $want"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $want; } >&2 ||
        say "apt-get failed"
    want=$(missing | spaced)
fi
case " $want " in
*" g++ "*)
    cat .venv/probe.log >&2
    ! grep -q "No space left" .venv/probe.log || fail "the disk of $PWD is full: make room, then run make again"
    fail "no C++ compiler works: install one (Debian: apt-get install g++), then run make again"
    ;;
*" python3-pip "*) fail "python3 with pip is missing: install it (Debian: apt-get install python3-pip), then run make again" ;;
esac
if [ -n "$want" ]; then
    say "bringing cmake and libclang as wheels into .venv"
    rm -rf "$wheels"
    # Into a folder of our own: no virtual environment is needed, which Debian packs apart from pip.
    python3 -m pip install -q --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: \
        --target "$wheels" -r scripts/setup/requirements.txt >&2 || say "pip failed"
    PATH="$wheels/cmake/data/bin:$PATH"
    want=$(missing | spaced)
fi
if [ -n "$want" ]; then
    cat .venv/libclang.log >&2
    fail "missing: $want. Install them (Debian: apt-get install $want), then run make again"
fi
{
    [ -d "$wheels/cmake" ] && echo "export PATH=\"$wheels/cmake/data/bin:\$PATH\""
    {
        read -r library
        read -r headers || true
    } <.venv/libclang
    echo "[ -e \"$library\" ] || { echo \"set-up: $library is gone: run 'rm $PWD/$env', then make again\" >&2; return 1; }"
    echo "export LIBCLANG_PATH=\"$library\""
    [ -z "$headers" ] || echo "export BINDGEN_EXTRA_CLANG_ARGS=\"-I$headers\""
} >"$env.new"
mv "$env.new" "$env"
