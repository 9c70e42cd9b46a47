"""The command ``tandem``: the program that came with this package."""

import os
import sys
from pathlib import Path
from typing import NoReturn

PROGRAM = Path(__file__).parent / "bin" / "tandem"


def main() -> NoReturn:
    """Becomes the program, with the same arguments: Ctrl-C and exit codes are its own."""
    os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])
