"""Errors are exceptions, in the words of the program."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import tandem

SMALL = "smollm2-135m-instruct"


@pytest.mark.parametrize(
    "wish, words",
    [
        ({"budget": 2.0}, "a budget is a share of tokens from 0 to 1, not 2"),
        ({"threshold": 2.0}, "the threshold must be a number from 0"),
        ({"mode": "both"}, "write small, joint, large or verify"),
        ({"temperature": -1.0}, "temperature must be"),
        ({"on_cloud_error": "panic"}, '"panic" is not keep, wait or fail'),
        ({"router": "oracle"}, "oracle"),
    ],
)
def test_mistakes(pair: tandem.Tandem, wish: dict[str, Any], words: str) -> None:
    for wrong in (
        lambda: pair.answer("Hello", **wish),
        lambda: tandem.Tandem(SMALL, None, **wish),
    ):
        with pytest.raises(tandem.UsageError) as error:
            wrong()
        assert words in str(error.value)
        assert isinstance(error.value, (tandem.TandemError, ValueError))


@pytest.mark.parametrize(
    "wish, words",
    [
        ({"context": 2**62}, "context must be from 1 to 1048576"),
        ({"threads": 100_000}, "threads must be from 1 to 1024"),
        ({"seats": 0}, "seats must be from 1 to 256"),
        ({"queue": 2**62}, "queue must be from 0 to 100000"),
        ({"max_tokens": 2**62}, "max_tokens must be from 1 to 1000000"),
        ({"ask_deadline": 1e9}, "ask_deadline is a time above 0 and of at most an hour"),
    ],
)
def test_numbers_have_ranges(wish: dict[str, Any], words: str) -> None:
    with pytest.raises(tandem.UsageError, match=words):
        tandem.Tandem(SMALL, None, **wish)


@pytest.mark.parametrize(
    "wish, words",
    [
        ({"max_tokens": 0}, "max_tokens must be from 1 to 1000000"),
        ({"max_tokens": 2**62}, "max_tokens must be from 1 to 1000000"),
        ({"alternatives": 101}, "alternatives must be from 0 to 100"),
    ],
)
def test_numbers_of_a_text_have_ranges(
    pair: tandem.Tandem, wish: dict[str, Any], words: str
) -> None:
    with pytest.raises(tandem.UsageError, match=words):
        pair.answer("Hello", **wish)


def test_prompts_that_are_none(pair: tandem.Tandem) -> None:
    with pytest.raises(tandem.UsageError, match="the context holds 1024"):
        pair.answer("word " * 2000)
    with pytest.raises(tandem.UsageError, match='"robot" is not system, user or assistant'):
        pair.answer([{"role": "robot", "content": "Hello"}])
    for prompt in (7, [{"role": "user"}], ["Hello"]):
        with pytest.raises(TypeError):
            pair.answer(prompt)  # type: ignore[arg-type]


def test_the_same_words_as_the_program(tmp_path: Path, program: str) -> None:
    missing = tmp_path / "none.gguf"
    with pytest.raises(tandem.TandemError) as error:
        tandem.Tandem(missing, None).answer("Hello")
    arguments = [program, "run", "--offline", "--edge-model", str(missing), "Hello"]
    told = subprocess.run(arguments, capture_output=True, text=True)
    assert f"error: {error.value}" in told.stderr


def test_what_is_not_here(tmp_path: Path) -> None:
    with pytest.raises(tandem.StoreError):
        tandem.Tandem(SMALL, None, tmp_path / "none.safetensors")
    with pytest.raises(tandem.UsageError, match="there are .*general"):
        tandem.Tandem(SMALL, None, preset="poetry")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing else")
    with pytest.raises(tandem.TandemError):
        tandem.Tandem(broken, None, "top1").answer("Hello")


def test_no_cloud(alone: tandem.Tandem) -> None:
    with pytest.raises(tandem.CloudError, match="there is no cloud here"):
        alone.answer("Hello", mode="large")
    with pytest.raises(tandem.CloudError):
        alone.answer("Hello", router="always", threshold=1, on_cloud_error="fail")
    assert alone.running == 0
    with pytest.raises(tandem.UsageError, match="mode large"):
        tandem.Tandem(SMALL, None, mode="large")


def test_a_cloud_that_does_not_answer() -> None:
    pair = tandem.Tandem(SMALL, "http://127.0.0.1:9", "always", threshold=1, context=1024)
    kept = pair.answer("Hello", max_tokens=3)
    assert {token.source for token in kept.tokens} == {"fallback"}
    assert "127.0.0.1:9" in kept.summary["cloud_error"]
    stream = pair.stream("Hello", on_cloud_error="fail")
    with pytest.raises(tandem.CloudError, match="127.0.0.1:9"):
        list(stream)
    assert stream.answer is not None and stream.answer.finish_reason == "error"


def test_keys_are_for_addresses() -> None:
    with pytest.raises(tandem.UsageError, match="a cloud with an address"):
        tandem.Tandem(SMALL, SMALL, cloud_key="secret")
    with pytest.raises(tandem.UsageError, match="cloud:") as error:
        tandem.Tandem(SMALL, "http://user:secret@127.0.0.1:9")
    assert "secret" not in str(error.value)
    with pytest.warns(UserWarning, match="without encryption"):
        tandem.Tandem(SMALL, "http://cloud.example:9", cloud_key="secret")
    with pytest.raises(tandem.UsageError, match="ask_deadline"):
        tandem.Tandem(SMALL, None, ask_deadline=-1)


def test_one_text_a_seat(pair: tandem.Tandem) -> None:
    stream = pair.stream("Hello")
    next(stream)
    with pytest.raises(tandem.BusyError, match="all seats are taken"):
        pair.answer("Hello")
    stream.close()
    assert pair.answer("Hello", max_tokens=2).text


def test_a_closed_pair_begins_nothing() -> None:
    pair = tandem.Tandem(SMALL, None, context=1024)
    pair.close()
    with pytest.raises(tandem.BusyError):
        pair.answer("Hello")
