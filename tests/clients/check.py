"""Runs functions as tests and prints their count the way cargo does."""

import sys
import traceback


def run(*tests):
    failed = 0
    for test in tests:
        try:
            test()
            print(f"test {test.__name__} ... ok", flush=True)
        except Exception:
            failed += 1
            print(f"test {test.__name__} ... FAILED", flush=True)
            traceback.print_exc()
    word = "FAILED" if failed else "ok"
    print(f"test result: {word}. {len(tests) - failed} passed; {failed} failed;", flush=True)
    sys.exit(1 if failed else 0)
