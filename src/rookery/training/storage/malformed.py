"""What using a file raises that is whole, but was not written by rookery: somebody may have wished to do harm by it."""

from __future__ import annotations

from safetensors import SafetensorError

from rookery.console import printable

MALFORMED = (
    SafetensorError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError, MemoryError,
    AssertionError,
)  # fmt: skip
LONGEST = 200  # characters of such an error that are shown


def told(error: BaseException) -> str:
    """The first words of such an error."""
    return printable(f"{type(error).__name__}: {error}")[:LONGEST]
