#!/usr/bin/env bash
# draw.sh: draws the pictures of docs/pictures again, from the answers and figures that are committed.
# draw.sh --answer TANDEM: has the question answered again before, with the preset and real models.
# draw.sh --check: draws nothing, and fails if a picture is not what it would be drawn as.
set -eu
cd "$(dirname "$0")/../.."
folder=docs/pictures
if [ "${1:-}" = --answer ]; then
    for mode in small joint; do
        "$2" run --mode $mode --pair tiny --preset commonsenseqa --max-tokens 96 --json - <$folder/question.txt >$folder/$mode.json
    done
fi
drawn=$(mktemp -d)
trap 'rm -rf "$drawn"' EXIT
export PYTHONDONTWRITEBYTECODE=1
python3 scripts/pictures/answer.py $folder/question.txt $folder/small.json $folder/joint.json >"$drawn/answer.svg"
python3 scripts/pictures/share.py docs/results.md >"$drawn/share.svg"
for picture in "$drawn"/*.svg; do
    name=$(basename "$picture")
    if [ "${1:-}" != --check ]; then
        cp "$picture" "$folder/$name"
    elif ! cmp -s "$picture" "$folder/$name"; then
        echo "$folder/$name is not what is drawn from its figures: run 'make pictures'" >&2
        exit 1
    fi
done
