#!/usr/bin/env bash
# gather.sh FROM TO: puts the archives that several machines built, each in a folder of its own under
# FROM with its SHA256SUMS, into the one folder TO with one SHA256SUMS.
set -eu
from=${1:?"usage: gather.sh FROM TO"}
to=${2:?"usage: gather.sh FROM TO"}

fail() {
    echo "gathering the archives: $*" >&2
    exit 1
}

mkdir -p "$to"
for folder in "$from"/*/; do
    [ -f "$folder/SHA256SUMS" ] || fail "$folder has no SHA256SUMS"
    # A machine need not hand over every archive it built.
    (cd "$folder" && sha256sum --check --strict --ignore-missing SHA256SUMS) >&2 ||
        fail "what came from $folder is not what was built there"
    for archive in "$folder"/*.tar.gz; do
        name=$(basename "$archive")
        grep -q "  $name\$" "$folder/SHA256SUMS" || fail "$archive is not in its SHA256SUMS"
        [ ! -e "$to/$name" ] || fail "two machines handed over $name"
        cp "$archive" "$to/$name"
    done
done
cd "$to"
sha256sum -- *.tar.gz >SHA256SUMS
cat SHA256SUMS
