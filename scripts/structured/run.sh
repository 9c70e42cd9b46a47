#!/usr/bin/env bash
# Answers of the default pair that must fit their schemas: fifty schemas of rising difficulty, mode joint, a
# budget of 10 %, and a cloud that fails for every tenth ask. Prints a table; exits 1 if an answer is invalid.
#
#   scripts/structured/run.sh PROGRAM [--count N] [--exchange ids|text|both] [--parallel N] [OPTION ...]
#
# --count N      answers for each exchange; 1000 without it
# --exchange     what travels between the models: ids as with this pair, text as where vocabularies differ, or
#                one after the other, as without it
# --parallel N   groups of servers, each with an edge, a cloud and an equal part of this machine's cores; 1
#                without it. 8 suit 16 cores, and take 8 GB
# OPTION         goes to measure.py: `--first 500` begins at that answer, `--out FILE` keeps all of them
#
# Only loopback is used, and of Python's packages only jsonschema, which scripts/clients/install.sh brings.
set -u
usage() { sed -n '5s/^# *//p' "$0" >&2; exit 2; }
[ $# -ge 1 ] && [ "${1#-}" = "$1" ] || usage
tandem=$(realpath -- "$1")
shift
count=1000 exchanges="ids text" parallel=1
options=()
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
    --count) count=$2 ;;
    --parallel) parallel=$2 ;;
    --exchange)
        case $2 in
        ids | text) exchanges=$2 ;;
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
clouds=()
for _ in $(seq "$parallel"); do
    start "$tandem" cloud --listen 127.0.0.1:0 --context 2048 --threads "$threads" || exit 1
    clouds+=("$url")
done
status=0
for exchange in $exchanges; do
    urls=()
    for cloud in "${clouds[@]}"; do
        start "$python" scripts/structured/flaky.py "$cloud" "$exchange" || exit 1
        start "$tandem" serve --listen 127.0.0.1:0 --cloud "$url" --budget 10% --context 2048 --parallel 1 \
            --threads "$threads" --time-limit 1200s || exit 1
        urls+=("$url")
    done
    echo "exchange of $exchange:"
    PYTHONPATH=scripts "$python" scripts/structured/measure.py --count "$count" --exchange "$exchange" \
        ${options[@]+"${options[@]}"} "${urls[@]}" || status=1
done
exit "$status"
