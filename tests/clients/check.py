"""Runs functions as tests and prints how many passed."""

import sys
import traceback


def agree_where_sure(one, other):
    """Holds two answers of one model, as tokens with log-probabilities, to the same words.

    Batches of another size round otherwise, so where the first choice is hardly ahead of the second
    the model may go on in another way; behind such a place all may differ. Says whether there was none.
    """
    for a, b in zip(one, other):
        if a.token != b.token:
            lead = a.top_logprobs[0].logprob - a.top_logprobs[1].logprob
            assert lead < 0.5, f"{a.token!r} and {b.token!r}, and the first is {lead} nats ahead"
            return False
    return len(one) == len(other)


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
    print(f"{len(tests) - failed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)
