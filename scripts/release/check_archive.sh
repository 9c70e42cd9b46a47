#!/usr/bin/env bash
# check_archive.sh ARCHIVE: is this release archive whole, and does its program run here and say the
# version the archive is named after?
set -eu
archive=${1:?"usage: check_archive.sh ARCHIVE"}

fail() {
    echo "$archive: $*" >&2
    exit 1
}

folder=$(basename "$archive" .tar.gz)
# Beside the archive, because the temporary folder may forbid running what is in it.
unpacked=$(mktemp -d -p "$(dirname "$archive")")
trap 'rm -rf "$unpacked"' EXIT
tar -xzf "$archive" -C "$unpacked" || fail "tar cannot unpack it"
[ "$(ls -A "$unpacked")" = "$folder" ] || fail "it must hold the one folder $folder"
cd "$unpacked/$folder"

for file in bin/tandem LICENSE README.md share/man/man1/tandem.1 \
    share/bash-completion/completions/tandem share/zsh/site-functions/_tandem \
    share/fish/vendor_completions.d/tandem.fish; do
    [ -s "$file" ] || [ -s "$file.gz" ] || fail "$file is missing or empty"
done
if needed=$(ldd bin/tandem | grep 'not found'); then
    fail "libraries are missing here: $needed"
fi
version=${folder#tandem-}
version=${version%-*-linux}
says=$(bin/tandem --version) || fail "its program does not run"
[[ $says == "tandem $version ("* ]] || fail "named $version, but its program says: $says"
# A system's glibc must be at least as new as the newest version that a symbol is wanted in.
glibc=$(grep -raohE 'GLIBC_2\.[0-9]+' bin lib | sort -Vu | tail -n 1)
echo "$folder: whole, needs ${glibc/_/ }, says $says"
