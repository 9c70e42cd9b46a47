"""The small model as both edge and cloud: quick, and its texts are exchanged by ids."""

import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tandem

SMALL = "smollm2-135m-instruct"


@pytest.fixture(scope="session")
def pair() -> Iterator[tandem.Tandem]:
    with tandem.Tandem(SMALL, SMALL, "top1", max_tokens=24, context=1024) as pair:
        yield pair


@pytest.fixture
def alone() -> tandem.Tandem:
    """No cloud, and nobody asked before."""
    return tandem.Tandem(SMALL, None, max_tokens=24, context=1024)


@pytest.fixture(scope="session")
def program() -> str:
    """The command that was installed with the package."""
    return str(Path(sysconfig.get_path("scripts")) / "tandem")


@pytest.fixture(scope="session")
def command(program: str) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True)
        return done.stdout

    return run


@pytest.fixture
def cloud(program: str) -> Iterator[str]:
    """The address of a cloud on this machine that wants the key `test-key`."""
    arguments = ["cloud", "--listen", "127.0.0.1:0", "--key", "test-key", "--cloud-model", SMALL]
    server = subprocess.Popen([program, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        lines = (line for line in server.stderr if "listening on " in line)
        yield next(lines).split("listening on ")[1].strip()
    finally:
        server.terminate()
        server.communicate(timeout=30)
