import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Optional, SupportsFloat, Union, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, TypeAlias

__all__ = ["Answer", "Tandem", "Span", "Token", "Stream", "__VERSION__"]

__VERSION__: str

_Array: TypeAlias = NDArray[np.float32]
_Router: TypeAlias = Callable[[_Array, _Array], SupportsFloat]
_Path: TypeAlias = Union[str, os.PathLike[str]]
_Prompt: TypeAlias = Union[str, Sequence[Mapping[str, str]]]
_Mode: TypeAlias = Literal["joint", "small", "large", "verify"]
_OnCloudError: TypeAlias = Literal["keep", "wait", "fail"]
_Source: TypeAlias = Literal["edge", "cloud", "fallback"]
_FinishReason: TypeAlias = Literal["stop", "length", "cancelled", "error"]

@final
class Tandem:
    """A small model on this device, a large one in the cloud, and a router between them.

    ``cloud`` is a model to run in this process, the address of one that is served elsewhere, or
    ``None`` for no cloud at all; left out, it is the default model of the catalog.

    ``router`` is a name such as ``"top1"``, a router file, or a callable that gets the hidden state
    and the ten features of the distribution (the eight highest probabilities, the entropy in nats,
    the lead of the first over the second) and returns its trust in the proposal, from 0 to 1.
    """

    def __new__(
        cls,
        edge: Optional[_Path] = None,
        cloud: Optional[_Path] = ...,
        router: Union[_Path, _Router, None] = None,
        *,
        budget: Optional[float] = None,
        threshold: Optional[float] = None,
        preset: Optional[_Path] = None,
        mode: Optional[_Mode] = None,
        max_tokens: Optional[int] = None,
        temperature: Optional[float] = None,
        seed: Optional[int] = None,
        stop: Optional[Sequence[str]] = None,
        system: Optional[str] = None,
        cloud_key: Optional[str] = None,
        cloud_model: Optional[str] = None,
        on_cloud_error: Optional[_OnCloudError] = None,
        ask_deadline: Optional[float] = None,
        context: Optional[int] = None,
        threads: Optional[int] = None,
        gpu_layers: Optional[int] = None,
        seats: int = 1,
        queue: int = 0,
    ) -> Self: ...
    def stream(
        self,
        prompt: _Prompt,
        *,
        mode: Optional[_Mode] = None,
        router: Union[str, _Router, None] = None,
        budget: Optional[float] = None,
        threshold: Optional[float] = None,
        max_tokens: Optional[int] = None,
        temperature: Optional[float] = None,
        seed: Optional[int] = None,
        stop: Optional[Sequence[str]] = None,
        on_cloud_error: Optional[_OnCloudError] = None,
        alternatives: Optional[int] = None,
    ) -> Stream:
        """Begins a text and returns its pieces as they are written."""

    def answer(
        self,
        prompt: _Prompt,
        *,
        mode: Optional[_Mode] = None,
        router: Union[str, _Router, None] = None,
        budget: Optional[float] = None,
        threshold: Optional[float] = None,
        max_tokens: Optional[int] = None,
        temperature: Optional[float] = None,
        seed: Optional[int] = None,
        stop: Optional[Sequence[str]] = None,
        on_cloud_error: Optional[_OnCloudError] = None,
        alternatives: Optional[int] = None,
    ) -> Answer:
        """A text, from its first token to its last."""

    def load(self) -> None:
        """Loads the small model now, so that no text waits for it."""

    def close(self) -> None:
        """Starts no new text, and closes its sessions at the cloud."""

    @property
    def router(self) -> str:
        """The name of the router that judges unless a text has its own."""

    @property
    def running(self) -> int:
        """Texts that are being made."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class Stream:
    """The pieces of a text, as they are written. Dropping or closing it ends the text."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Span: ...
    @property
    def answer(self) -> Optional[Answer]:
        """The whole answer once the text has ended, also if it ended early; ``None`` before."""

    def close(self) -> None:
        """Ends the text here."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class Span:
    """Tokens that follow one another and have the same source."""

    @property
    def text(self) -> str: ...
    @property
    def source(self) -> _Source: ...
    @property
    def score(self) -> Optional[float]:
        """The router's trust at its first token; ``None`` where nobody judged."""

    @property
    def times(self) -> dict[str, float]:
        """Where the time of its tokens went, in milliseconds."""

    @property
    def tokens(self) -> list[Token]: ...

@final
class Token:
    """One token, with where it came from."""

    @property
    def index(self) -> int: ...
    @property
    def id(self) -> Optional[int]: ...
    @property
    def text(self) -> str: ...
    @property
    def source(self) -> _Source: ...
    @property
    def score(self) -> Optional[float]: ...
    @property
    def logprob(self) -> Optional[float]:
        """Only with ``alternatives``."""

    @property
    def times(self) -> dict[str, float]: ...
    def to_dict(self) -> dict[str, Any]:
        """Everything, as in a trace."""

@final
class Answer:
    """A text that has ended, with what there is to say of it."""

    @property
    def text(self) -> str: ...
    @property
    def finish_reason(self) -> _FinishReason: ...
    @property
    def tokens(self) -> list[Token]: ...
    @property
    def spans(self) -> list[Span]:
        """The text in pieces of one source each."""

    @property
    def stats(self) -> dict[str, Any]:
        """Counts and times."""

    @property
    def summary(self) -> dict[str, Any]:
        """Mode, router, threshold, budget, seed, the cloud's last failure, and the counts."""

    def to_dict(self) -> dict[str, Any]:
        """Everything, as ``tandem run --json`` prints it."""
