#!/usr/bin/env bash
# Prints the version everything is released under: the workspace's, in Cargo.toml.
set -eu
cd "$(dirname "$0")/../.."
version=$(sed -n '/^\[workspace\.package\]$/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
[ -n "$version" ] || {
    echo "Cargo.toml names no version under [workspace.package]" >&2
    exit 1
}
echo "$version"
