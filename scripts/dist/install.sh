#!/usr/bin/env bash
# install.sh PREFIX [ARCHIVE]: puts the program, its presets, manual pages and completions under a
# prefix: from an archive, by default that of `make dist`, where there is one; else the program as built
# for this machine. What an earlier version left there is replaced; a failure leaves it as it was.
set -eu
prefix=${1:?"usage: install.sh PREFIX [ARCHIVE]"}
# Many shells leave the ~ of `make install PREFIX=~/.local` as it is, because no word begins with it.
case $prefix in
"~" | "~/"*) prefix=$HOME${prefix#"~"} ;;
esac
prefix=$(realpath -m "$prefix")
cd "$(dirname "$0")/../.."
archive=${2:-dist/tandem-$(scripts/release/version.sh)-$(uname -m)-linux.tar.gz}
native=target/release/tandem
fail() {
    echo "install: $*" >&2
    exit 1
}
# What went wrong, by what the tool that failed said.
fail_at() {
    case $2 in
    *"No space left"*) fail "the disk of $prefix is full: make room and install again" ;;
    *) fail "$1" ;;
    esac
}
mkdir -p "$prefix" || exit 1
# Whole beside its place first, then moved: that needs no room and can hardly fail.
new=$(mktemp -d -p "$prefix" .tandem.XXXXXX) || exit 1
trap 'rm -rf "$new"' EXIT
if [ -e "$archive" ]; then
    said=$(tar -xzf "$archive" -C "$new" --strip-components=1 2>&1) ||
        fail_at "$archive is damaged: make it or fetch it again" "$said"
    rm "$new/LICENSE" "$new/README.md"
elif [ -x "$native" ]; then
    mkdir "$new/bin"
    said=$(strip -o "$new/bin/tandem" "$native" 2>&1 && scripts/dist/share.sh "$new/bin/tandem" "$new/share" 2>&1) ||
        fail_at "$native cannot be installed: $said" "$said"
else
    fail "nothing to install: run 'make build' (for this machine) or 'make dist' (for any) first"
fi
rm -rf "$prefix/lib/tandem" "$prefix/share/tandem" "$prefix/share/doc/tandem"
# Folders that are there keep their owner and mode: the prefix may be everybody's.
cd "$new"
find . -mindepth 1 -type d -exec mkdir -p "$prefix"/{} \;
find . -type f -exec mv -f {} "$prefix"/{} \;
echo "installed in $prefix: $("$prefix/bin/tandem" --version)"
