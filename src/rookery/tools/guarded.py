"""What is being done to an env while it is checked, and what its code raises, as text that is safe to print."""

from __future__ import annotations

import reprlib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rookery.errors import RookeryError

LONGEST = 300  # characters of an exception that are shown
PACKAGE = str(Path(__file__).parents[1])
Tell = Callable[[str, bool], None]


class CheckAborted(Exception):
    """The env cannot be stepped further; the reason has been reported."""


class Watch:
    """Keeps what is being done, so that whatever ends a check is reported with its place.

    Args:
        tell: Is called with each new thing that is done, and whether it may take minutes.
        own_process: Whether the process does nothing else: no person can interrupt it, so that a KeyboardInterrupt
            comes from the env.
    """

    def __init__(self, tell: Tell | None = None, own_process: bool = False) -> None:
        self._tell, self._own_process = tell, own_process
        self.doing = "the check"

    def now(self, doing: str, slow: bool = False) -> None:
        """What is done next; `slow` if it may take minutes, such as a compilation."""
        self.doing = doing
        if self._tell is not None:
            self._tell(doing, slow)

    @contextmanager
    def guard(self, report: Callable[[str], None]) -> Iterator[None]:
        """Report whatever is raised within, and raise CheckAborted instead."""
        try:
            yield
        except CheckAborted:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not self._own_process:
                raise
            report(raised_text(self.doing, error))
            raise CheckAborted from error


def raised_text(doing: str, error: BaseException) -> str:
    """One line about an exception: rookery's own errors say what is wrong, others also where."""
    if isinstance(error, RookeryError):
        return f"{doing}: {error}"
    return f"{doing} raised {error_text(error)}{location(error)}"


def error_text(error: BaseException) -> str:
    """The type and the message of an exception in one line.

    >>> error_text(ValueError("no fuel"))
    'ValueError: no fuel'
    """
    try:
        message = " ".join(str(error).split())
    except BaseException:  # noqa: BLE001 - whatever a class of the user's does
        message = "its message cannot be shown"
    message = message if len(message) <= LONGEST else f"{message[:LONGEST]} ..."
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def value_text(value: object) -> str:
    """A value and its type, short, whatever its `repr` does.

    >>> value_text(None)
    'None (NoneType)'
    """
    try:
        shown = reprlib.repr(value)
    except BaseException:  # noqa: BLE001
        return f"an object of type {type(value).__name__}"
    return f"{shown} ({type(value).__name__})"


def location(error: BaseException) -> str:
    """The last line of the user's code that an exception came through, or of any code but the check's."""
    frames = traceback.extract_tb(error.__traceback__)
    others = [frame for frame in frames if not frame.filename.startswith(PACKAGE)]
    return f" ({Path(others[-1].filename).name}:{others[-1].lineno})" if others else ""
