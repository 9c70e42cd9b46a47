#!/usr/bin/env bash
# Breaks the set-up on purpose, a piece at a time: each must end with one clear line that names the piece
# and the command, or bring it. Nothing is installed: what would install is a stand-in.
set -u
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# A checkout with the set-up alone in it, and a folder of stand-ins that come before the real tools.
fresh() {
    rm -rf "$scratch/tree" "$scratch/bin"
    mkdir -p "$scratch/tree/scripts" "$scratch/bin"
    cp -r scripts/setup "$scratch/tree/scripts/"
    cp Cargo.toml "$scratch/tree/"
    # An ordinary user, whatever we are: nothing is installed.
    stand_in id 'echo 1000'
}
stand_in() {
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/bin/$1"
    chmod +x "$scratch/bin/$1"
}
# check WHAT CODE WORDS [VARIABLE=VALUE...]: the set-up ends with the code, and its last line has the words.
check() {
    local what=$1 code=$2 words=$3 said got
    shift 3
    said=$(cd "$scratch/tree" && env "$@" PATH="$scratch/bin:$PATH" scripts/setup/setup.sh 2>&1)
    got=$?
    if [ "$got" = "$code" ] && tail -n 1 <<<"$said" | grep -qE "$words"; then
        passed=$((passed + 1))
        echo "ok    $what"
    else
        failed=$((failed + 1))
        printf 'FAIL  %s: exit code %s and\n%s\n' "$what" "$got" "$said"
    fi
}

fresh
check "everything works" 0 "^$"
fresh
stand_in cargo 'exit 1'
check "a cargo that does not run" 1 "cargo does not run: run 'rustup default stable', then make again"
fresh
stand_in cargo 'echo "cargo 1.70.0 (made up)"'
check "an old Rust" 1 "this Rust is 1.70.0, and .* is needed: run 'rustup update', then make again"
fresh
stand_in c++ 'echo "made up: no C++ here" >&2; exit 1'
check "a compiler that does not compile" 1 "no C\+\+ compiler works: install one .*g\+\+.*, then run make again"
fresh
stand_in c++ 'echo "c++: No space left on device" >&2; exit 1'
check "a full disk" 1 "is full: make room, then run make again"
fresh
real_python=$(command -v python3)
stand_in python3 "case \"\$*\" in '-m pip'*) exit 1 ;; esac; exec $real_python \"\$@\""
check "Python without pip" 1 "python3 with pip is missing: install it .*python3-pip.*, then run make again"
fresh
stand_in cmake 'exit 1'
stand_in python3 "case \"\$*\" in '-m pip install'*) exit 1 ;; esac; exec $real_python \"\$@\""
check "no cmake, and pip brings none" 1 "missing: cmake. Install them .*cmake.*, then run make again"
fresh
touch "$scratch/tree/libclang.so"
check "a LIBCLANG_PATH that is none" 1 "LIBCLANG_PATH=.* names no libclang that works: unset it" \
    LIBCLANG_PATH="$scratch/tree/libclang.so"
fresh
(cd "$scratch/tree" && PATH="$scratch/bin:$PATH" scripts/setup/setup.sh) 2>"$scratch/log" || cat "$scratch/log"
sed -i 's#^\[ -e "[^"]*"#[ -e "/nowhere/libclang.so"#' "$scratch/tree/.venv/env"
if said=$(sh -c ". '$scratch/tree/.venv/env'" 2>&1) || ! grep -q "is gone: run 'rm" <<<"$said"; then
    failed=$((failed + 1))
    echo "FAIL  a libclang that was removed: $said"
else
    passed=$((passed + 1))
    echo "ok    a libclang that was removed"
fi
# A configuration of AMX must reach its instruction whole: cargo names the folder of the corrected header.
cat >"$scratch/amx.cpp" <<'END'
#include <immintrin.h>
struct Configuration { unsigned char head[16]; unsigned short bytes_a_row[16]; unsigned char rows[16]; };
void load() {
    Configuration configuration = {};
    configuration.bytes_a_row[7] = 12345;
    _tile_loadconfig(&configuration);
}
END
# An older compiler knows no AMX and makes no code for it.
if c++ -mamx-tile -E -x c++ /dev/null >"$scratch/log" 2>&1; then
    corrected=$PWD/$(sed -n 's/^CPLUS_INCLUDE_PATH = { value = "\(.*\)", relative = true }/\1/p' .cargo/config.toml)
    if CPLUS_INCLUDE_PATH=$corrected c++ -O3 -mamx-tile -S "$scratch/amx.cpp" -o "$scratch/amx.s" && grep -q 12345 "$scratch/amx.s"; then
        passed=$((passed + 1))
        echo "ok    a configuration of AMX is loaded whole"
    else
        failed=$((failed + 1))
        echo "FAIL  a configuration of AMX is loaded whole: what was written to it is left out"
    fi
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
