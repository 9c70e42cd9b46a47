#!/usr/bin/env bash
# install.sh PREFIX: puts what `make dist` made under a prefix: the program, llama.cpp's kernels,
# presets, manual pages and completions. Whatever an earlier version left there is replaced.
set -eu
prefix=${1:?"usage: install.sh PREFIX"}
cd "$(dirname "$0")/../.."
archive=dist/tandem-$(scripts/release/version.sh)-$(uname -m)-linux.tar.gz
[ -e "$archive" ] || {
    echo "install: $archive is missing: run 'make dist' first, or unpack a release there" >&2
    exit 1
}
mkdir -p "$prefix"
# Unpacked whole beside its place first: a damaged archive leaves nothing behind.
new=$(mktemp -d -p "$prefix" .tandem.XXXXXX)
trap 'rm -rf "$new"' EXIT
tar -xzf "$archive" -C "$new" --strip-components=1 || {
    echo "install: $archive is damaged: make it or fetch it again" >&2
    exit 1
}
rm -rf "$prefix/lib/tandem" "$prefix/share/tandem" "$prefix/share/doc/tandem"
mv "$new/LICENSE" "$new/README.md" "$new/share/doc/tandem/"
cp -a "$new/." "$prefix/"
echo "installed in $prefix: $("$prefix/bin/tandem" --version)"
