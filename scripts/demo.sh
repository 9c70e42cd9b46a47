#!/usr/bin/env bash
# The same question three times: the small model alone, both together, the large one alone. Then a
# question of common sense, with the adapters and the trained router that come with the program.
set -eu
tandem=$1
question="Why does ice float on water? Answer in two sentences."
for mode in small joint large; do
    echo
    echo "== $mode"
    "$tandem" run --mode "$mode" --max-tokens 80 "$question"
done
common_sense="Question: Where are mines typically located under?
Choices:
(a) pennsylvania
(b) desert
(c) valley
(d) cambodia
(e) mountain
Please format your response in the following way: [Explanation]. Therefore, the answer is answer (label)."
for mode in small joint large; do
    echo
    echo "== $mode, preset commonsenseqa"
    "$tandem" run --mode "$mode" --preset commonsenseqa --max-tokens 80 "$common_sense"
done
echo
echo "In 'joint', words from the cloud are coloured on a terminal; the last line of each answer"
echo "says how many there were and where the time went. Try: $tandem chat"
