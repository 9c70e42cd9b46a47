"""Decoding with two models: a small one on this device writes almost every token, a large one in the
cloud writes those where a router does not trust it.

>>> import tandem
>>> t = tandem.Tandem(budget=0.07)
>>> for span in t.stream("Why is the sky blue?"):
...     print(span.text, end="", flush=True)
"""

import os as _os

# llama.cpp's tiled matrix multiplication pays only for batches longer than an ask's. It is read when
# the first model is loaded; whoever has set it keeps it.
_os.environ.setdefault("GGML_CPU_TILED_MM", "0")

from ._tandem import Answer, Span, Stream, Tandem, Token
from ._tandem import __VERSION__ as __version__
from .errors import (
    BusyError,
    CloudError,
    EngineError,
    StoreError,
    TandemError,
    UsageError,
)

__all__ = [
    "Answer",
    "BusyError",
    "CloudError",
    "EngineError",
    "Span",
    "Stream",
    "StoreError",
    "Tandem",
    "TandemError",
    "Token",
    "UsageError",
    "__version__",
]
