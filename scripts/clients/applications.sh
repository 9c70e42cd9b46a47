#!/usr/bin/env bash
# Installs applications, lets each use `tandem serve`, and adds up what they print.
#
# usage: applications.sh TANDEM [llama_index|lm_eval|aider|open_webui ...]
set -u
tandem=$1
shift
cd "$(dirname "$0")/../.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
for application in ${@:-llama_index lm_eval aider open_webui}; do
    echo "== $application"
    "scripts/clients/$application.sh" "$tandem" 2>&1 | tee -a "$log"
    [ "${PIPESTATUS[0]}" = 0 ] || status=1
done
awk '/^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3 } END { printf "\nin all: %d passed, %d failed\n", p, f }' "$log"
exit "$status"
