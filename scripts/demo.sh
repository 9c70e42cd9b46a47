#!/usr/bin/env bash
# The same question three times: the small model alone, both together, the large one alone.
set -eu
tandem=$1
question="Why does ice float on water? Answer in two sentences."
for mode in small joint large; do
    echo
    echo "== $mode"
    "$tandem" run --mode "$mode" --max-tokens 80 "$question"
done
echo
echo "In 'joint', words from the cloud are coloured on a terminal; the last line of each answer"
echo "says how many there were and where the time went. Try: $tandem chat"
