"""Looks for the future in a market world: exchanges the bars after each moment, and names what knew of them.

A world is a class or function that takes its bars by an option. It is played many times with the same seed and the same
actions, on bars that differ only after some moment. Whatever differs before that moment has seen the future.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rookery.data.shared_tables import unshared
from rookery.errors import OptionError, WorldError
from rookery.tools.audit_data import given_table, usual_tables
from rookery.tools.audit_rules import AuditedWorld, Comparisons, Leak
from rookery.user_code import find_in_file

OPTIONS = ("data", "df", "bars", "prices", "frame", "dataset", "table", "candles", "ohlcv", "path", "file", "csv")
ROWS, STEPS = 200, 24


@dataclass(frozen=True)
class AuditReport:
    """The result of `audit`. `leaks` has the first of each kind; `notes` say what could not be tested."""

    world: str
    leaks: tuple[Leak, ...]
    notes: tuple[str, ...]
    episodes: int

    @property
    def passed(self) -> bool:
        return not self.leaks

    def as_json(self) -> dict[str, Any]:
        leaks = [{name: getattr(leak, name) for name in Leak.__dataclass_fields__} for leak in self.leaks]
        return {"world": self.world, "passed": self.passed, "leaks": leaks, "notes": list(self.notes),
                "episodes": self.episodes}  # fmt: skip

    def __str__(self) -> str:
        found = [leak.text for leak in self.leaks] or ["nothing knew the future"]
        return "\n".join([f"{self.world}: {self.episodes} episodes", *(f"  {line}" for line in (*found, *self.notes))])

    def print(self) -> None:
        """Print what was found."""
        print(self)


def audit(
    world: Any,
    data: Any = None,
    *,
    option: str | None = None,
    steps: int = STEPS,
    seed: int = 0,
    **options: Any,
) -> AuditReport:
    """Find out whether a market world shows its agent the future.

    Args:
        world: An env class, a function that makes an env, a kernel world, or its name, such as "my_env.py:MyMarket".
        data: Bars in the form that the world takes: a table of pandas or polars, a dict of columns, an array, or a
            .csv or .parquet file. Its columns and times are used, not its prices. If omitted, made-up bars.
        option: The option of the world that takes the bars; if omitted, found by its name.
        steps: How many steps to play.
        seed: Of the env, the actions and the bars.
        options: Other options of the world.
    """
    made = find_in_file(world, "world") if isinstance(world, str) else world
    if not callable(made):
        raise OptionError(f"{world!r} is not an env class or a function that makes an env")
    name = world if isinstance(world, str) else getattr(made, "__name__", type(made).__name__)
    if steps < 4:
        raise OptionError(f"steps = {steps}: an audit needs at least 4")
    taken = option or _data_option(made, name)
    with unshared():  # hundreds of courses of the bars, each of which is looked at once
        found = Comparisons(_opened(made, name, taken, data, options, seed), steps, seed)
        leaks, notes = found.leaks_and_notes(name)
    return AuditReport(name, leaks, notes, found.world.episodes)


def _data_option(made: Callable[..., Any], name: str) -> str:
    """The option that takes the bars."""
    parameters = inspect.signature(made).parameters
    known = [each for each in OPTIONS if each in parameters]
    if not known and any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return OPTIONS[0]
    required = [each.name for each in parameters.values() if each.default is each.empty and each.kind < 2]
    if not known and not required:
        raise OptionError(
            f"{name} takes no bars: give it an option such as data, or name its option by option='...' (--option)"
        )
    return known[0] if known else required[0]


def _opened(made: Any, name: str, option: str, data: Any, options: Mapping[str, Any], seed: int) -> AuditedWorld:
    """The world with bars that it takes."""
    if data is not None:
        return AuditedWorld(made, option, *given_table(data), options, seed)
    failures = []
    for table in usual_tables(ROWS):
        world = AuditedWorld(made, option, *given_table(table), options, seed)
        try:
            world.play(world.future.changed(world.future.end), [])
            return world
        except Exception as error:  # noqa: BLE001 - the user's code, with bars in a form that it may not take
            failures.append(f"{type(error).__name__}: {error}".splitlines()[0][:160])
    raise WorldError(f"{name} takes none of the usual tables as {option} ({failures[0]}): give data (--data)")
