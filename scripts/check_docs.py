#!/usr/bin/env python3
"""Every file and heading that the documentation names exists, its figures are filled in, and those of the
README are results; no file of code is longer than CONTRIBUTING.md allows.

Looks at links of Markdown, and at words in code that begin with a folder of this repository. Figures of
the README must stand in docs/results.md, beside the command they come from. Prints what is wrong and
ends with 1 if anything is.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.S)
# What stands where a figure will be, until it is measured.
PLACEHOLDER = re.compile(r"\bRESULT_[A-Z]+\b")
CODE_SUFFIXES = {".c", ".cpp", ".css", ".h", ".html", ".js", ".mjs", ".py", ".pyi", ".rs", ".sh"}
MOST_LINES = 500


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


def problems(files):
    """What is wrong, a line each."""
    folders = sorted({name.split("/")[0] for name in files if "/" in name})
    for page in (ROOT / name for name in files if name.endswith(".md")):
        for name in missing(page, folders):
            yield f"{page.relative_to(ROOT)}: there is no {name}"
        for name in PLACEHOLDER.findall(page.read_text(encoding="utf-8")):
            yield f"{page.relative_to(ROOT)}: {name} stands for a figure that nobody has filled in"
    for figure in unfounded():
        yield f"README.md: {figure} is not in docs/results.md"
    for name in files:
        if Path(name).suffix in CODE_SUFFIXES:
            lines = len((ROOT / name).read_text(encoding="utf-8").splitlines())
            if lines > MOST_LINES:
                yield f"{name}: {lines} lines, and {MOST_LINES} are the most: split it"


def main():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    # A file that was deleted is listed until that is committed.
    found = list(problems([name for name in listed if (ROOT / name).is_file()]))
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)


main()
