#!/usr/bin/env bash
# Tool calls of the default pair: sixty prompts with three tools each, in the modes small, joint and large, once
# where a call is required and once where the models may answer in words. Exits 1 if arguments do not fit their
# tool's schema, or if joint chooses the right tool less often than small.
#
#   scripts/tools/run.sh PROGRAM [--count N] [--choice required|auto|both] [--parallel N] [OPTION ...]
#
# --count N      so many of the prompts; all 60 without it
# --choice       `tool_choice`; both, one after the other, without it
# --parallel N   servers, each with both models and an equal part of this machine's cores; 1 without it. 8 suit
#                16 cores, and take 8 GB
# OPTION         goes to measure.py: `--out FILE` keeps every call
#
# Only loopback is used, and of Python's packages only jsonschema, which scripts/clients/install.sh brings.
set -u
usage() { sed -n '6s/^# *//p' "$0" >&2; exit 2; }
[ $# -ge 1 ] && [ "${1#-}" = "$1" ] || usage
tandem=$(realpath -- "$1")
shift
count=60 choices="required auto" parallel=1
options=()
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
    --count) count=$2 ;;
    --parallel) parallel=$2 ;;
    --choice)
        case $2 in
        required | auto) choices=$2 ;;
        both) ;;
        *) usage ;;
        esac
        ;;
    --out) options+=("$1" "$(realpath -m -- "$2")") ;;
    *) options+=("$1" "$2") ;;
    esac
    shift 2
done
cd "$(dirname "$0")/../.."
. scripts/servers.sh
find_jsonschema || exit 1
threads=$(threads_of "$parallel")
urls=()
for _ in $(seq "$parallel"); do
    start "$tandem" serve --listen 127.0.0.1:0 --budget 10% --context 2048 --parallel 1 --threads "$threads" || exit 1
    urls+=("$url")
done
status=0
for choice in $choices; do
    PYTHONPATH=scripts "$python" scripts/tools/measure.py --count "$count" --choice "$choice" \
        ${options[@]+"${options[@]}"} "${urls[@]}" || status=1
done
exit "$status"
