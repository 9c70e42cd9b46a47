#!/usr/bin/env bash
# Campaigns of faults, against scripted clouds of every engine's dialect, against `tandem cloud` with tiny
# models, and against the program itself with the real small model (and llama-server, where it is
# installed); then one table of all of them. The same seed is the same script of faults.
#
# usage: chaos.sh   (TANDEM_SEED, TANDEM_GENERATIONS scripted texts, TANDEM_REAL_GENERATIONS real ones)
set -u -o pipefail
cd "$(dirname "$0")/.."
. .venv/env || exit 1
export TANDEM_SEED=${TANDEM_SEED:-1}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
# One after the other, for each measures its process: what it holds, and how soon it answers.
cargo test --release --workspace --exclude tandem-python --no-fail-fast --test it -- \
    --ignored --nocapture --test-threads=1 a_campaign_of_faults 2>&1 | tee "$log" || status=1
echo
echo "seed $TANDEM_SEED"
awk -F '\t' '
    $1 != "CHAOS" { next }
    !($2 in column) { column[$2] = ++columns; title[columns] = $2 }
    !($3 in row) { row[$3] = ++rows; name[rows] = $3 }
    { count[$3, $2] = $4 }
    END {
        if (!columns) exit 1
        line = "| |"; rule = "|---|"
        for (c = 1; c <= columns; c++) { line = line " " title[c] " |"; rule = rule "---|" }
        print line; print rule
        for (r = 1; r <= rows; r++) {
            line = "| " name[r] " |"
            for (c = 1; c <= columns; c++) line = line " " count[name[r], title[c]] " |"
            print line
        }
    }' "$log" || status=1
[ "$status" = 0 ] || echo "a campaign failed; TANDEM_SEED=$TANDEM_SEED make chaos is the same one" >&2
exit "$status"
