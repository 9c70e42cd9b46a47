#!/usr/bin/env bash
# What a pace makes of networks that change, against fixed thresholds: one `tandem eval` for each network, and one
# table of all of them.
#
#     scripts/network/pace.sh PROGRAM TASK QUESTIONS FOLDER [--short] [options of `tandem eval`]
#
#     scripts/network/pace.sh target/release/tandem commonsenseqa dev.jsonl /tmp/pace --limit 60 \
#         --pace 60ms,100ms --threshold 0.2,0.4,0.6,0.8 --baseline none --no-large
#
# The networks are a steady one, one that changes between near and far, one with bursts of loss, and one that is
# dead for a minute; with --short its parts are a tenth as long. FOLDER keeps the results of every run, and the
# same command resumes. The column `fixed` is the accuracy of the fixed thresholds at the same mean time, on the
# straight line between the two nearest; nothing is there where no two of them are around it.
set -euo pipefail

if [ $# -lt 4 ]; then
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 2
fi
program=$1 task=$2 questions=$3 folder=$4
shift 4
lasts() { echo "$1"; }
if [ "${1:-}" = --short ]; then
    shift
    lasts() { awk -v time="$1" 'BEGIN { print time / 10 }'; }
fi
networks=(
    "steady|170ms"
    "near and far|20ms/$(lasts 5)s,400ms/$(lasts 5)s"
    "bursts of loss|170ms/$(lasts 9)s,170ms:50%/$(lasts 3)s"
    "dead minute|170ms/$(lasts 30)s,dead/$(lasts 60)s,170ms/$(lasts 210)s"
)
mkdir -p "$folder"
tables=()
for entry in "${networks[@]}"; do
    name=${entry%%|*} network=${entry#*|}
    file=$folder/${name// /-}
    echo "$name: $network" >&2
    "$program" eval "$task" --data "$questions" --simulate-rtt "$network" --results "$file.jsonl" --json "$@" \
        >"$file.json.part"
    mv "$file.json.part" "$file.json"
    tables+=("$name" "$file.json")
done
python3 - "${tables[@]}" <<'PYTHON'
import json
import sys


def number(value, form):
    return "–" if value is None else format(value, form)


def at(mean, fixed):
    """The accuracy of fixed thresholds at this mean time."""
    known = sorted((p["between_tokens_mean_ms"], p["accuracy"]) for p in fixed)
    for (low, below), (high, above) in zip(known, known[1:]):
        if low <= mean <= high:
            return below + (above - below) * ((mean - low) / (high - low) if high > low else 0.5)
    return None


def verdict(point):
    if point.get("pace_ms") is None:
        return ""
    why = point.get("pace_miss")
    return "held" if why is None else f"not held: {why}"


head = ["network", "point", "aim ms", "mean ms", "p95 ms", "accuracy", "fixed", "share", "within 15 %"]
rows = []
for name, path in zip(sys.argv[1::2], sys.argv[2::2]):
    with open(path) as file:
        points = [p for p in json.load(file)["points"] if p["mode"] == "joint"]
    timed = [p for p in points if p["between_tokens_mean_ms"] is not None]
    router = timed[0]["router"] if timed else None
    paced = [p for p in timed if p.get("pace_ms") is not None]
    alone = [p for p in timed if p not in paced and p["budget"] is None and p["router"] == router]
    fixed = [p for p in alone if p["accuracy"] is not None]
    for point in alone + paced:
        beside = at(point["between_tokens_mean_ms"], fixed) if point in paced else None
        rows.append([
            name,
            point["name"].split(" rtt ")[0],
            number(point.get("pace_ms"), ".0f"),
            number(point["between_tokens_mean_ms"], ".1f"),
            number(point["between_tokens_p95_ms"], ".1f"),
            number(point["accuracy"], ".3f"),
            number(beside, ".3f"),
            number(point["routed_share"] * 100, ".1f") + " %",
            verdict(point),
        ])
widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
for row in [head, *rows]:
    print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
if not any(row[2] != "–" for row in rows):
    sys.exit("nothing was paced: give --pace")
PYTHON
