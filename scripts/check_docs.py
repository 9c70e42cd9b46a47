#!/usr/bin/env python3
"""Every file and heading that the documentation names exists, and the README's figures are results.

Looks at links of Markdown, and at words in code that begin with a folder of this repository. Figures of
the README must stand in docs/results.md, beside the command they come from. Prints what is missing and
ends with 1 if anything is.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.S)


def headings(text):
    """The anchors a Markdown page has, as GitHub makes them."""
    without_code = re.sub(r"```.*?```", "", text, flags=re.S)
    for title in re.findall(r"^#+ (.*)$", without_code, re.M):
        plain = re.sub(r"[^\w\- ]", "", title.lower())
        yield plain.strip().replace(" ", "-")


def missing(page, folders):
    """What a page names and this repository does not have."""
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(re.sub(r"```.*?```", "", text, flags=re.S)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists():
            yield target
        elif anchor and anchor not in headings(linked.read_text(encoding="utf-8")):
            yield target
    path = re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, folders))})/[\w./-]*[\w-]")
    for code in CODE.findall(text):
        for named in path.findall(code):
            # A part in capitals stands for any name: presets/NAME.
            if not (ROOT / named).exists() and not any(part.isupper() for part in named.split("/")):
                yield named


def unfounded():
    """Figures of the README that are no results."""
    figures = re.compile(r"\b0\.\d{3}\b|\b\d+\.\d %")
    found = figures.findall((ROOT / "docs/results.md").read_text(encoding="utf-8"))
    return [name for name in figures.findall((ROOT / "README.md").read_text(encoding="utf-8")) if name not in found]


def main():
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    folders = sorted({name.split("/")[0] for name in files if "/" in name})
    pages = [ROOT / name for name in files if name.endswith(".md")]
    gone = [(page, name) for page in pages for name in missing(page, folders)]
    for page, name in gone:
        print(f"{page.relative_to(ROOT)}: there is no {name}", file=sys.stderr)
    for figure in unfounded():
        print(f"README.md: {figure} is not in docs/results.md", file=sys.stderr)
    sys.exit(1 if gone or unfounded() else 0)


main()
