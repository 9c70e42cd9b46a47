#!/usr/bin/env bash
# share.sh PROGRAM FOLDER: writes what belongs to the program besides itself: presets, units for systemd and
# a dashboard, manual pages, completions, documentation. Both an archive and an installation have it.
set -eu
program=$1 share=$2
cd "$(dirname "$0")/../.."
mkdir -p "$share/tandem" "$share/man/man1" "$share/bash-completion/completions" \
    "$share/zsh/site-functions" "$share/fish/vendor_completions.d" "$share/doc/tandem"
cp -r presets ops "$share/tandem/"
"$program" manual "$share/man/man1"
"$program" completions bash >"$share/bash-completion/completions/tandem"
"$program" completions zsh >"$share/zsh/site-functions/_tandem"
"$program" completions fish >"$share/fish/vendor_completions.d/tandem.fish"
cp -r docs CHANGELOG.md CONTRIBUTING.md LICENSE README.md SECURITY.md "$share/doc/tandem/"
