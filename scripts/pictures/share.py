#!/usr/bin/env python3
"""Draws what a share of the large model's tokens buys, from the first table of docs/results.md.

usage: share.py RESULTS.md >share.svg
"""

import re
import sys
from xml.sax.saxutils import escape

from style import picture

WIDTH, HEIGHT = 860, 380
LEFT, RIGHT, TOP, BOTTOM = 74, 190, 54, 56
SHARES = (0.0, 16.0)
RIGHTS = (0.40, 0.80)

CSS = """
  text { font: 14px system-ui, "Segoe UI", Roboto, sans-serif }
  .title { font-size: 16px; font-weight: 600 }
  .name { font-weight: 600 }
"""


class Row:
    """One row of the table: how many were right, in which interval, and with which share."""

    def __init__(self, cells):
        self.name = cells[0]
        self.right = float(cells[1])
        self.low, self.high = (float(n) for n in cells[2].split("–"))
        share = cells[4]
        self.share = 100.0 if share == "all" else float(share.removesuffix("%"))


def read(path):
    """The rows of the first table that has intervals, and the words at its head."""
    rows, head = [], None
    for line in open(path, encoding="utf-8"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if head is None and line.startswith("|") and "95 % interval" in line:
            head = cells[0]
        elif head and line.startswith("|---"):
            continue
        elif head and line.startswith("|"):
            rows.append(Row(cells))
        elif head:
            break
    if not rows:
        sys.exit(f"{path} holds no table with intervals")
    return head, rows


def across(share):
    return LEFT + (share - SHARES[0]) / (SHARES[1] - SHARES[0]) * (WIDTH - LEFT - RIGHT)


def up(right):
    return HEIGHT - BOTTOM - (right - RIGHTS[0]) / (RIGHTS[1] - RIGHTS[0]) * (HEIGHT - TOP - BOTTOM)


def axes():
    marks = []
    for tenth in range(4, 9):
        y = up(tenth / 10)
        marks.append(f'<path class="rule" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        marks.append(f'<text class="muted" x="{LEFT - 10}" y="{y + 5:.1f}" text-anchor="end">0.{tenth}</text>')
    for share in range(0, 16, 5):
        marks.append(f'<text class="muted" x="{across(share):.1f}" y="{HEIGHT - BOTTOM + 24}" text-anchor="middle">{share} %</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    marks.append(f'<text class="muted" x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">tokens from the large model</text>')
    return marks


def level(row, name, below=False):
    """One model alone: a height to compare with."""
    y = up(row.right)
    return [
        f'<path class="rule" stroke-width="2" stroke-dasharray="2 5" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>',
        f'<text class="muted" x="{WIDTH - RIGHT + 14}" y="{y + (15 if below else -3):.1f}">{name} {row.right:.3f}</text>',
    ]


def line(rows, name, kind, dash, below):
    """A way to choose tokens, with the interval of every point."""
    points = " ".join(f"{across(row.share):.1f},{up(row.right):.1f}" for row in rows)
    marks = [f'<polyline class="{kind}-line" fill="none" stroke-width="3"{dash} points="{points}"/>']
    for row in rows[1:]:
        x, y = across(row.share), up(row.right)
        marks.append(f'<path class="{kind}-line" stroke-width="1.5" d="M{x:.1f} {up(row.low):.1f}V{up(row.high):.1f}"/>')
        marks.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
    first = rows[1]
    marks.append(
        f'<text class="{kind} name" x="{across(first.share) + 12:.1f}" y="{up(first.right) + below:.1f}">'
        f"{escape(name)}: {first.right:.3f} with {first.share:.1f} %</text>"
    )
    return marks


def main():
    head, rows = read(sys.argv[1])

    def named(start):
        found = [row for row in rows if row.name.startswith(start)]
        return found or sys.exit(f"the table has no row that begins with {start}")

    small, large = named("small")[0], named("large")[0]
    router, chance = [small, *named("router")], [small, *named("random")]
    marks = [f'<text class="title ink" x="{LEFT}" y="32">CommonsenseQA, {escape(head)}: share answered right</text>']
    marks += axes() + level(large, "large alone") + level(small, "small alone", below=True)
    marks += line(chance, "at random", "edge", ' stroke-dasharray="7 5"', 24)
    marks += line(router, "where the router doubts", "cloud", "", 46)
    told = "; ".join(f"{row.name}: {row.right:.3f} with {row.share:.1f} %" for row in [small, *router[1:], *chance[1:], large])
    sys.stdout.write(picture(WIDTH, HEIGHT, f"Accuracy over the share of tokens from the large model, {head}", told, CSS, marks))


main()
