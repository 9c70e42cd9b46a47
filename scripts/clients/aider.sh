#!/usr/bin/env bash
# aider edits one file with the words of `tandem serve`, without a person beside it.
#
# usage: aider.sh TANDEM
set -u
cd "$(dirname "$0")/../.."
. scripts/clients/serve.sh
environment aider || exit 1
start_server "$1" --context 4096 || exit 1
.venv/clients/aider/bin/python tests/clients/aider_edit.py "$url" "$key"
