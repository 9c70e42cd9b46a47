#!/usr/bin/env bash
# pip.sh ENVIRONMENT LIST: installs exactly the wheels that a list of scripts/lock.sh names, each by its hash, and
# nothing else: no newer version, nothing that is brought along unasked, and no package's own code is run.
set -eu
"$1/bin/pip" install -q --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: -r "$2" >&2
