#!/usr/bin/env bash
# Makes the workflows' image rust:…-bookworm ready for make, as its root: the set-up brings most of what
# is missing by itself, and this the rest.
set -eu
cd "$(dirname "$0")/../.."
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends cmake libclang-dev python3-pip python3-venv
rustup component add clippy rustfmt
# The checkout belongs to the runner's user, not to the container's; git would name no commit.
git config --global --add safe.directory "$PWD"
