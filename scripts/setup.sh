#!/usr/bin/env bash
# Brings what the build needs besides Rust: a C++ compiler, cmake and libclang. With apt where we
# are root, else cmake and libclang from PyPI wheels into .venv, else a message that names what is
# missing. Writes .venv/env, which is sourced before cargo.
set -eu
cd "$(dirname "$0")/.."
mkdir -p .venv
env=.venv/env

have() { command -v "$1" >/dev/null 2>&1; }

have_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    ldconfig -p 2>/dev/null | grep -q 'libclang[-.0-9]*\.so' && return 0
    # Debian keeps it outside the linker's paths, where bindgen looks all the same.
    ls /usr/lib/llvm-*/lib/libclang*.so* >/dev/null 2>&1
}

missing() {
    have cc && have c++ || echo g++
    have cmake || echo cmake
    have_libclang || echo libclang-dev
}

fail() {
    echo "set-up: $*" >&2
    exit 1
}

have cargo || fail "cargo is missing: install Rust (rustup), then run make again"
have python3 && python3 -m pip --version >/dev/null 2>&1 ||
    fail "python3 with pip is missing: install it, then run make again"

: >"$env.new"
want=$(missing | tr '\n' ' ')
if [ -n "$want" ] && [ "$(id -u)" = 0 ] && have apt-get; then
    echo "set-up: installing $want" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $want; } >&2 ||
        echo "set-up: apt-get failed" >&2
    want=$(missing | tr '\n' ' ')
fi
case "$want" in
*g++*) fail "a C++ compiler is missing: install g++ or clang++, then run make again" ;;
esac
if [ -n "$want" ]; then
    echo "set-up: bringing cmake and libclang from PyPI into .venv" >&2
    python3 -m venv .venv/python >&2 && .venv/python/bin/pip install -q cmake==4.4.4 libclang==18.1.1 >&2 ||
        fail "missing: $want- install them (Debian: apt-get install $want), then run make again"
    clang=$(.venv/python/bin/python -c 'import clang, os; print(os.path.join(os.path.dirname(clang.__file__), "native"))')
    # The wheel has the library alone; the compiler's own headers come from gcc.
    headers=$(dirname "$(cc -print-file-name=include/stddef.h)")
    {
        echo "export PATH=\"$PWD/.venv/python/bin:\$PATH\""
        echo "export LIBCLANG_PATH=\"$clang\""
        echo "export BINDGEN_EXTRA_CLANG_ARGS=\"-I$headers\""
    } >>"$env.new"
fi
mv "$env.new" "$env"
