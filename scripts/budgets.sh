#!/usr/bin/env bash
# Are budgets right from the first token? Separate short answers to these prompts, each with a budget of its
# own: the mean share must come within 2 points. Takes some ten minutes on two cores.
#   scripts/budgets.sh PROMPTS.jsonl [OPTION...]     options go to `tandem bench budget`
set -eu
prompts=$1
shift
exec "${TANDEM:-target/release/tandem}" bench budget --prompts "$prompts" --limit 50 --within 2% \
    --router top1,margin,entropy --budget 5%,10%,20% "$@"
