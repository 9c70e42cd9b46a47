#!/usr/bin/env bash
# install.sh PREFIX: puts the program, its presets, manual pages and completions under a prefix: from
# the archive of `make dist` where there is one, else the program as built for this machine. What an
# earlier version left there is replaced; a failure leaves it as it was.
set -eu
prefix=${1:?"usage: install.sh PREFIX"}
cd "$(dirname "$0")/../.."
fail() {
    echo "install: $*" >&2
    exit 1
}
archive=dist/tandem-$(scripts/release/version.sh)-$(uname -m)-linux.tar.gz
native=target/release/tandem
mkdir -p "$prefix"
# Whole beside its place first, then moved.
new=$(mktemp -d -p "$prefix" .tandem.XXXXXX)
trap 'rm -rf "$new"' EXIT
if [ -e "$archive" ]; then
    tar -xzf "$archive" -C "$new" --strip-components=1 2>/dev/null ||
        fail "$archive is damaged: make it or fetch it again"
    rm "$new/LICENSE" "$new/README.md"
elif [ -x "$native" ]; then
    mkdir "$new/bin"
    strip -o "$new/bin/tandem" "$native" || fail "$native cannot be copied"
    scripts/dist/share.sh "$new/bin/tandem" "$new/share" || fail "the program does not run"
else
    fail "nothing to install: run 'make build' (for this machine) or 'make dist' (for any) first"
fi
rm -rf "$prefix/lib/tandem" "$prefix/share/tandem" "$prefix/share/doc/tandem"
cp -a "$new/." "$prefix/"
echo "installed in $prefix: $("$prefix/bin/tandem" --version)"
