"""The interpreter goes on while models compute, and a text can be stopped."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest
import tandem

LONG = "Write a long story about a lighthouse keeper and the sea."


def test_other_threads_run_meanwhile(pair: tandem.Tandem) -> None:
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    started = time.monotonic()
    pair.answer(LONG, mode="small", max_tokens=48)
    ended = time.monotonic()
    done.set()
    thread.join()
    meanwhile = [tick for tick in ticks if started < tick < ended]
    gaps = [later - sooner for sooner, later in zip(meanwhile, meanwhile[1:])]
    # With the lock held throughout there would be one gap as long as the answer.
    assert len(meanwhile) > 10
    assert max(gaps) < (ended - started) / 2


def test_a_thread_of_python_may_ask_too(pair: tandem.Tandem) -> None:
    texts: list[str] = []
    thread = threading.Thread(target=lambda: texts.append(pair.answer(LONG, max_tokens=4).text))
    thread.start()
    thread.join(60)
    assert texts and texts[0]


def test_two_seats_write_at_once() -> None:
    small = "smollm2-135m-instruct"
    pair = tandem.Tandem(small, None, mode="small", seats=2, queue=4, context=512, max_tokens=16)
    most = 0
    answers: list[tandem.Answer] = []

    def ask() -> None:
        answers.append(pair.answer(LONG))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most = max(most, pair.running)
        time.sleep(0.002)
    assert len(answers) == 4 and most == 2


@pytest.mark.parametrize("end", ["drop", "close", "with"])
def test_a_text_ends_with_its_iterator(pair: tandem.Tandem, end: str) -> None:
    stream = pair.stream(LONG, max_tokens=500)
    next(stream)
    assert pair.running == 1
    if end == "drop":
        del stream
        gc.collect()
    elif end == "close":
        stream.close()
        assert list(stream) == []
        assert stream.answer is not None and stream.answer.finish_reason == "cancelled"
    else:
        with stream:
            pass
    assert pair.running == 0
    assert pair.answer(LONG, max_tokens=2).text


def interrupted(work: Callable[[], object], after: float) -> float:
    """Presses Ctrl-C while it works; how long it then took to stop."""
    pressed: list[float] = []

    def press() -> None:
        time.sleep(after)
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        work()
    stopped = time.monotonic()
    thread.join()
    return stopped - pressed[0]


@pytest.mark.parametrize("way", ["answer", "stream"])
def test_control_c_stops_a_text(pair: tandem.Tandem, way: str) -> None:
    def work() -> None:
        if way == "answer":
            pair.answer(LONG, max_tokens=900, router="always", threshold=1)
        else:
            for _ in pair.stream(LONG, max_tokens=900):
                pass

    took = interrupted(work, 0.3)
    assert took < 2, "a step or two, on a slow machine"
    assert pair.running == 0
    assert pair.answer(LONG, max_tokens=2).text


def test_control_c_ends_a_program() -> None:
    program = textwrap.dedent(
        """
        import tandem
        pair = tandem.Tandem("smollm2-135m-instruct", None, mode="small", context=2048)
        pair.load()
        print("loaded", flush=True)
        pair.answer("Write a long story.", max_tokens=1900)
        """
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "loaded\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=20)
    assert child.returncode == -signal.SIGINT and "KeyboardInterrupt" in errors
