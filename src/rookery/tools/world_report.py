"""The report of `rookery check`: what is being done to an env while it is checked, and what its code raises, as text
that is safe to print."""

from __future__ import annotations

import reprlib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rookery.errors import RookeryError, WorldError


@dataclass
class WorldReport:
    """The result of `check_world`. `problems` break training; `advice` would improve the world."""

    world: str
    steps: int
    problems: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    steps_per_second: float = 0.0  # one env, resets included; 0 if it could not be stepped
    reset_seconds: float = 0.0
    batch_envs: int = 0  # of a kernel world: how many envs were stepped together, and how many steps all of them made
    batch_steps_per_second: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.problems

    def raise_if_bad(self) -> None:
        """Raise a WorldError that lists all problems, if there are any."""
        if self.problems:
            raise WorldError(str(self))

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        from rookery import printing  # rich, which the command line's help does without

        count = len(self.problems)
        verdict = "no problems" if not count else "1 problem" if count == 1 else f"{count} problems"
        lines = [f"{self.world}: {verdict} in {self.steps} steps"]
        if self.steps_per_second:
            rate, reset = printing.rate(self.steps_per_second), printing.duration(self.reset_seconds)
            lines[0] += f"; one env makes {rate} steps/s, a reset takes {reset}"
        if self.batch_steps_per_second:
            lines.append(
                f"  {self.batch_envs:,} envs in a batch make {printing.rate(self.batch_steps_per_second)} steps/s"
            )
        lines += [f"  problem: {problem}" for problem in self.problems]
        lines += [f"  advice: {advice}" for advice in self.advice]
        return "\n".join(lines)


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
