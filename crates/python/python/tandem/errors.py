"""What can go wrong, in the words of the program ``tandem``."""


class TandemError(Exception):
    """Why there is no pair, or no text from it."""


class UsageError(TandemError, ValueError):
    """What was asked for contradicts itself or makes no sense: the caller's mistake."""


class StoreError(TandemError):
    """A model, preset or router file is missing or damaged, or does not belong to the others."""


class EngineError(TandemError):
    """A model on this machine failed."""


class CloudError(TandemError):
    """The cloud failed, or there is none and one is needed."""


class BusyError(TandemError):
    """As many texts are being made as there are seats, and as many wait as may."""
