#!/usr/bin/env bash
# check_tag.sh TAG: may this tag be released? It must name the version of Cargo.toml, and CHANGELOG.md
# must have a section of that version with a date. Prints the version.
set -eu
tag=${1:?"usage: check_tag.sh TAG"}
cd "$(dirname "$0")/../.."

fail() {
    echo "$tag cannot be released: $*" >&2
    exit 1
}

version=$(scripts/release/version.sh)
[ "$tag" = "v$version" ] || fail "Cargo.toml says $version, whose tag is v$version"
scripts/release/notes.sh "$version" >/dev/null || fail "it has no notes"
dated="^## \[${version//./\\.}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$"
grep -qE "$dated" CHANGELOG.md ||
    fail "CHANGELOG.md gives it no date: write \"## [$version] - $(date +%F)\""
echo "$version"
