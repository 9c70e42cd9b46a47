#!/usr/bin/env python3
"""Draws answers of `tandem run --json`, one below the other, the words of the large model marked.

usage: answer.py QUESTION SMALL.json JOINT.json >answer.svg
"""

import json
import sys
from itertools import groupby
from xml.sax.saxutils import escape

from style import picture

WIDTH = 860
LEFT = 28
FONT = 16
# A monospaced letter; textLength holds every line to it, whatever font the reader has.
LETTER = 0.6 * FONT
LINE = 27
COLUMNS = int((WIDTH - 2 * LEFT) / LETTER)

CSS = f"""
  text {{ font: {FONT}px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre }}
  .label, .note {{ font: 600 14px system-ui, "Segoe UI", Roboto, sans-serif }}
  .note {{ font-weight: 400 }}
  .cloud {{ font-weight: 700 }}
"""


def wrap(tokens):
    """Lines of at most COLUMNS letters, each a list of (letter, whether the cloud wrote it)."""
    letters = [(letter, token["source"] == "cloud") for token in tokens for letter in token["text"]]
    lines, word = [[]], []
    for letter, cloud in [*letters, ("\n", False)]:
        if not letter.isspace():
            word.append((letter, cloud))
            continue
        if lines[-1] and len(lines[-1]) + 1 + len(word) > COLUMNS:
            lines.append([])
        elif lines[-1] and word:
            lines[-1].append((" ", False))
        lines[-1] += word
        word = []
        if letter == "\n":
            lines.append([])
    return lines[:-1]


def draw(line, top):
    """One line of text, with a tint and a stroke below what the cloud wrote."""
    marks, spans, column = [], [], 0
    for cloud, letters in groupby(line, key=lambda letter: letter[1]):
        text = "".join(letter for letter, _ in letters)
        x, width = LEFT + column * LETTER, len(text) * LETTER
        if cloud:
            marks.append(f'<rect class="tint" x="{x - 3:.1f}" y="{top - 17}" width="{width + 6:.1f}" height="24" rx="4"/>')
            marks.append(f'<path class="cloud-line" stroke-width="2" d="M{x:.1f} {top + 5}h{width:.1f}"/>')
        spans.append(f'<tspan class="{"cloud" if cloud else "ink"}">{escape(text)}</tspan>')
        column += len(text)
    marks.append(f'<text x="{LEFT}" y="{top}" textLength="{column * LETTER:.1f}">{"".join(spans)}</text>')
    return marks


def main():
    question = open(sys.argv[1], encoding="utf-8").read().splitlines()
    asked = question[0].removeprefix("Question: ")
    choices = ", ".join(line.split(") ", 1)[1] for line in question if line.startswith("("))
    top = 38
    marks = [
        f'<text class="label ink" x="{LEFT}" y="{top}">{escape(asked)}</text>',
        f'<text class="note muted" x="{LEFT}" y="{top + 22}">{escape(choices)}</text>',
    ]
    top += 64
    texts = []
    for name, path in zip(("The small model alone", "Both together"), sys.argv[2:4], strict=True):
        answer = json.load(open(path, encoding="utf-8"))
        tokens, stats = answer["tokens"], answer["stats"]
        share = sum(token["source"] == "cloud" for token in tokens) / len(tokens)
        said = f"{len(tokens)} tokens"
        if share:
            said += f", {100 * share:.1f} % of them from the large model, asked {stats['asks']} times"
        marks.append(
            f'<text class="label edge" x="{LEFT}" y="{top}">{name}'
            f'<tspan class="note muted" dx="10">{said}</tspan></text>'
        )
        top += LINE + 3
        for line in wrap(tokens):
            marks += draw(line, top)
            top += LINE
        top += 19
        texts.append(f"{name}: {answer['text']}")
    title = "One question, answered by a small model alone and with words from a large one"
    sys.stdout.write(picture(WIDTH, top - 24, title, " ".join(texts), CSS, marks))


main()
