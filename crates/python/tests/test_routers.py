"""Routers in Python."""

import numpy as np
import pytest
import tandem
from numpy.typing import NDArray

Array = NDArray[np.float32]
QUESTION = "Name three colours."


def test_it_sees_what_the_edge_saw(pair: tandem.Tandem) -> None:
    seen: list[tuple[Array, Array]] = []

    def trusting(hidden: Array, features: Array) -> float:
        seen.append((hidden, features))
        return 1.0

    answer = pair.answer(QUESTION, router=trusting, threshold=0.5)
    assert answer.summary["router"] == "custom"
    assert {token.source for token in answer.tokens} == {"edge"}
    # Once more at the end of the text, unless it was cut.
    assert len(seen) - len(answer.tokens) == (answer.finish_reason == "stop")
    for hidden, features in seen:
        assert hidden.dtype == features.dtype == np.float32
        assert hidden.shape == (576,) and features.shape == (10,)
        assert np.isfinite(hidden).all() and hidden.std() > 0
        top, entropy, lead = features[:8], features[8], features[9]
        assert (np.diff(top) <= 0).all() and 0 < top.sum() <= 1.001
        assert entropy >= 0 and lead == pytest.approx(top[0] - top[1], abs=1e-6)
    assert len({hidden.tobytes() for hidden, _ in seen}) == len(seen), "each its own memory"


def test_its_score_decides(pair: tandem.Tandem) -> None:
    turns = iter(range(1000))

    def every_third(hidden: Array, features: Array) -> float:
        return 0.1 if next(turns) % 3 == 0 else 0.9

    answer = pair.answer(QUESTION, router=every_third, threshold=0.5, max_tokens=9)
    expected = ["cloud" if i % 3 == 0 else "edge" for i in range(len(answer.tokens))]
    assert [token.source for token in answer.tokens] == expected
    scores = [token.score for token in answer.tokens]
    assert scores == pytest.approx([0.1 if i % 3 == 0 else 0.9 for i in range(len(scores))])


def test_top1_in_python_judges_like_top1(pair: tandem.Tandem) -> None:
    def first(hidden: Array, features: Array) -> float:
        return float(features[0])

    for answer in (
        pair.answer(QUESTION, router=first, threshold=0, alternatives=1),
        pair.answer(QUESTION, router="top1", threshold=0, alternatives=1),
    ):
        assert answer.tokens
        for token in answer.tokens:
            assert token.logprob is not None
            # Both judge by the probability of the token that the edge chose.
            assert token.score == pytest.approx(np.exp(token.logprob), abs=1e-3)


def test_a_pair_of_its_own() -> None:
    def doubtful(hidden: Array, features: Array) -> np.float32:
        return np.float32(1 - min(features[8], 1))

    small = "smollm2-135m-instruct"
    with tandem.Tandem(small, small, doubtful, budget=0.3, context=1024) as pair:
        assert pair.router == "custom"
        answer = pair.answer(QUESTION, max_tokens=12)
    assert answer.summary["budget"] == pytest.approx(0.3)
    assert all(token.score is not None for token in answer.tokens)


class Broken(Exception):
    pass


@pytest.mark.parametrize("threshold", [0.5, 1.0])
def test_its_exception_ends_the_text(pair: tandem.Tandem, threshold: float) -> None:
    calls = 0

    def breaks(hidden: Array, features: Array) -> float:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise Broken("at the fourth")
        return 0.9

    stream = pair.stream(QUESTION, router=breaks, threshold=threshold)
    with pytest.raises(Broken, match="at the fourth"):
        list(stream)
    assert calls == 4
    assert stream.answer is not None and stream.answer.finish_reason == "cancelled"
    # What it was judging may have been kept; the cloud's answer to it is not waited for.
    assert stream.answer.stats["tokens"] == (4 if threshold < 1 else 3)
    assert stream.answer.stats["asks"] == (0 if threshold < 1 else 3)
    assert pair.running == 0
    calls = 0
    with pytest.raises(Broken):
        pair.answer(QUESTION, router=breaks, threshold=threshold)
    assert pair.running == 0
    assert pair.answer(QUESTION, max_tokens=3).text, "the pair goes on"


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan")])
def test_what_is_no_score_is_refused(pair: tandem.Tandem, score: float) -> None:
    with pytest.raises(tandem.UsageError, match="a router returns a number from 0 to 1"):
        pair.answer(QUESTION, router=lambda hidden, features: score)
    with pytest.raises(TypeError):
        pair.answer(QUESTION, router=lambda hidden, features: "much")  # type: ignore[arg-type, return-value]


def test_a_router_may_not_read_its_own_text(pair: tandem.Tandem) -> None:
    streams: list[tandem.Stream] = []

    def reads(hidden: Array, features: Array) -> float:
        next(streams[0])
        return 1.0

    streams.append(pair.stream(QUESTION, router=reads))
    with pytest.raises(RuntimeError):
        next(streams[0])
    assert pair.running == 0
