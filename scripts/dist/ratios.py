"""Prints how the portable program compares with the native one: for each model the medians of both and
the median of the ratios of neighbouring runs, which shared slow moments leave alone."""

import json
import statistics
import sys

runs = {}
for line in open(sys.argv[1]):
    model, build, figures = line.split(" ", 2)
    runs.setdefault(model, {"native": [], "dist": []})[build].append(json.loads(figures))

print(f"{'model':30} {'':8} {'native':>8} {'dist':>8} {'ratio':>7}")
worst = 10.0
for model, builds in runs.items():
    for figure, name in (("prefill", "prefill"), ("bare", "decode"), ("loop", "loop")):
        native = [run[figure] for run in builds["native"]]
        dist = [run[figure] for run in builds["dist"]]
        ratio = statistics.median(d / n for n, d in zip(native, dist))
        worst = min(worst, ratio)
        rates = statistics.median(native), statistics.median(dist)
        print(f"{model:30} {name:8} {rates[0]:8.1f} {rates[1]:8.1f} {ratio:7.3f}")
print(f"tokens a second; the lowest ratio is {worst:.3f}")
