"""Streams and answers, and what they tell of themselves."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import tandem

SMALL = "smollm2-135m-instruct"
QUESTION = "What is the capital of France?"
TIMES = {
    "edge_prefill_ms",
    "edge_decode_ms",
    "router_ms",
    "cloud_load_ms",
    "cloud_queue_ms",
    "cloud_prefill_ms",
    "cloud_decode_ms",
    "network_ms",
    "hidden_ms",
}


def test_a_stream_is_its_answer(pair: tandem.Tandem) -> None:
    stream = pair.stream(QUESTION, threshold=0.7)
    assert stream.answer is None
    spans = list(stream)
    answer = stream.answer
    assert answer is not None
    assert "".join(span.text for span in spans) == answer.text == str(answer)
    assert [token.text for span in spans for token in span.tokens] == [
        token.text for token in answer.tokens
    ]
    assert answer.text and answer.finish_reason in ("stop", "length")
    for span in spans:
        assert {token.source for token in span.tokens} == {span.source}
        assert span.score == span.tokens[0].score
        assert set(span.times) == TIMES
        assert span.times["edge_decode_ms"] > 0
    # Nothing is left, and asking again says so again.
    assert list(stream) == []


def test_who_wrote_which_token(pair: tandem.Tandem) -> None:
    answer = pair.answer(QUESTION, threshold=0.9)
    judged = [token.score for token in answer.tokens]
    assert all(score is not None and 0 <= score <= 1 for score in judged)
    # Both models are the same and exchange ids, so every doubt becomes an ask.
    for token in answer.tokens:
        assert token.score is not None
        assert token.source == ("cloud" if token.score < 0.9 else "edge")
    cloud = sum(token.source == "cloud" for token in answer.tokens)
    assert answer.stats["cloud_tokens"] == cloud
    assert answer.stats["routed_share"] == pytest.approx(cloud / len(answer.tokens))
    assert sum(len(span.tokens) for span in answer.spans) == len(answer.tokens)
    assert "".join(span.text for span in answer.spans) == answer.text


@pytest.mark.parametrize("mode, source", [("small", "edge"), ("large", "cloud")])
def test_one_model_alone(pair: tandem.Tandem, mode: str, source: str) -> None:
    answer = pair.answer(QUESTION, mode=mode, max_tokens=8)  # type: ignore[arg-type]
    assert {token.source for token in answer.tokens} == {source}
    assert {token.score for token in answer.tokens} == {None}
    assert answer.summary["mode"] == mode and answer.summary["router"] is None


def test_drafts_that_the_large_model_judges(pair: tandem.Tandem) -> None:
    answer = pair.answer(QUESTION, mode="verify", max_tokens=8)
    assert answer.summary["mode"] == "verify"
    # Both models are the same, so a pass of the large one accepts more than a token.
    assert 0 < answer.stats["asks"] < len(answer.tokens)


def test_a_question_is_a_conversation(pair: tandem.Tandem) -> None:
    # Read twice in the same batches, so that rounding cannot tell them apart.
    texts = []
    for prompt in (QUESTION, [{"role": "user", "content": QUESTION}]):
        pair.answer("Something else.", mode="small", max_tokens=1)
        texts.append(pair.answer(prompt, mode="small", max_tokens=8).text)
    assert texts[0] == texts[1]
    longer = [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "Paris."},
        {"role": "user", "content": "And of Italy?"},
    ]
    assert pair.answer(longer, max_tokens=4).text


def test_wishes_of_one_text(pair: tandem.Tandem) -> None:
    count = pair.answer("Count from one to one hundred.", max_tokens=5)
    assert len(count.tokens) == 5 and count.finish_reason == "length"
    whole = pair.answer(QUESTION, mode="small")
    word = whole.text.split()[1]
    assert word not in pair.answer(QUESTION, mode="small", stop=[word]).text
    seeded = [pair.answer(QUESTION, temperature=1.5, seed=7, max_tokens=4) for _ in range(2)]
    assert [answer.summary["seed"] for answer in seeded] == [7, 7]
    drawn = {pair.answer(QUESTION, temperature=1.5, max_tokens=1).summary["seed"] for _ in range(4)}
    assert len(drawn) > 1, "every text without a seed draws its own"
    budget = pair.answer(QUESTION, budget=0.25)
    assert budget.summary["budget"] == pytest.approx(0.25)
    always = pair.answer(QUESTION, router="always", threshold=0.5, max_tokens=4)
    assert always.summary["router"] == "always" and always.stats["routed_share"] == 1
    detailed = pair.answer(QUESTION, max_tokens=2, alternatives=3).tokens[0]
    assert detailed.logprob is not None and detailed.logprob <= 0
    assert len(detailed.to_dict()["alternatives"]) == 3


def test_offline_the_edge_stands_in(alone: tandem.Tandem) -> None:
    answer = alone.answer(QUESTION, router="always", threshold=1, max_tokens=4)
    assert {token.source for token in answer.tokens} == {"fallback"}
    assert answer.stats["fallback_tokens"] == len(answer.tokens)
    assert answer.summary["cloud_error"]


def test_the_same_words_as_the_command(command: Callable[..., str], pair: tandem.Tandem) -> None:
    told = json.loads(command("run", "--json", "--mode", "small", "--max-tokens", "4", QUESTION))
    answer = pair.answer(QUESTION, mode="small", max_tokens=4).to_dict()
    assert answer.keys() == told.keys()
    assert answer["stats"].keys() == told["stats"].keys()
    assert answer["tokens"][0].keys() == told["tokens"][0].keys()


def test_the_command_is_this_version(command: Callable[..., str]) -> None:
    assert tandem.__version__ in command("--version")
    assert "commonsenseqa" in command("preset", "list"), "it finds the presets of the package"


def test_the_default_pair_by_preset() -> None:
    """The models and the router that people get, once."""
    with tandem.Tandem(preset="commonsenseqa", max_tokens=16, context=1024) as pair:
        assert pair.router == "router"
        answer = pair.answer(QUESTION)
        assert answer.summary["budget"] == pytest.approx(0.05)
        assert {token.source for token in answer.tokens} <= {"edge", "cloud"}
        asked = pair.answer(QUESTION, threshold=1, max_tokens=3)
        assert asked.stats["asks"] > 0 and asked.summary["exchange"] == "ids"
        assert "cloud" in {token.source for token in asked.tokens}


def test_without_a_choice_the_general_router_judges() -> None:
    assert tandem.Tandem(cloud=None).router == "general-qwen"


def test_the_command_keeps_its_exit_code(program: str) -> None:
    wrong = subprocess.run([program, "run", "--budget", "much", "x"], capture_output=True)
    assert wrong.returncode == 2


def test_a_cloud_elsewhere(cloud: str) -> None:
    arguments: dict[str, Any] = {"threshold": 1, "max_tokens": 4, "context": 1024}
    with tandem.Tandem(SMALL, cloud, "always", cloud_key="test-key", **arguments) as pair:
        answer = pair.answer(QUESTION)
        assert {token.source for token in answer.tokens} == {"cloud"}
        assert answer.stats["sent_bytes"] > 0, "it left this process"
    with tandem.Tandem(SMALL, cloud, "always", cloud_key="another", **arguments) as pair:
        with pytest.raises(tandem.CloudError, match="key") as error:
            pair.answer(QUESTION, on_cloud_error="fail")
        assert "another" not in str(error.value)
