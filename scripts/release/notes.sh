#!/usr/bin/env bash
# notes.sh VERSION: prints what CHANGELOG.md says of this version, the notes of its release.
set -eu
version=${1:?"usage: notes.sh VERSION"}
cd "$(dirname "$0")/../.."
notes=$(awk -v heading="## [$version] " '
    /^## / { wanted = index($0, heading) == 1; next }
    wanted' CHANGELOG.md)
# The shell drops the empty lines behind the text, sed those before it.
notes=$(sed '/./,$!d' <<<"$notes")
[ -n "$notes" ] || {
    echo "CHANGELOG.md says nothing of $version: write a section \"## [$version] - DATE\"" >&2
    exit 1
}
echo "$notes"
