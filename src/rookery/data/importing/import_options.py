"""What a user can say about the files that are imported."""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rookery.data.timeframes import timeframe_seconds
from rookery.errors import OptionError


@dataclass(frozen=True)
class ImportOptions:
    """What a user can say about the files that are imported.

    Attributes:
        symbols: Only these, in this order; for arrays, the names of their columns.
        timeframe: Of the result. Bars of a finer one are resampled.
        calendar: When the market is open.
        usual_calendar: The same for sources that do not say it, if `calendar` is not given.
        timezone: Of times that name no zone, such as "UTC" or "Europe/Berlin"; without it they are refused.
        date_format: Of times in text, as in `strptime`, such as "%d.%m.%Y %H:%M".
        day_first: Whether 01/02/2024 is in February; without it, such dates are refused unless others in the file tell.
        time_is: Whether a time is the "start" or the "end" of its bar.
        decimal_comma: Whether 1,5 is one and a half.
        adjusted: Scale open, high, low and close so that close is the column of adjusted closes.
        tech_names: Names of the columns per symbol of `tech_array`.
        notes: What was found and decided is added to this list.
    """

    symbols: Sequence[str] | None = None
    timeframe: str | int | None = None
    calendar: str | None = None
    timezone: str | None = None
    date_format: str | None = None
    day_first: bool | None = None
    time_is: str = "start"
    decimal_comma: bool = False
    adjusted: bool = False
    tech_names: Sequence[str] | None = None
    usual_calendar: str = "24/7"
    notes: list[str] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        if self.time_is not in ("start", "end"):
            raise OptionError(f"time_is should be start or end, got {self.time_is!r}")
        if self.timezone is not None:
            check_timezone(self.timezone)
        if self.timeframe is not None:
            timeframe_seconds(self.timeframe)
        if self.symbols is not None and len(set(self.symbols)) < len(self.symbols):
            raise OptionError(f"symbols should be different, got {', '.join(self.symbols)}")

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def facts(self) -> dict[str, Any]:
        """What is kept in the history."""
        names = ("timezone", "date_format", "day_first", "decimal_comma", "adjusted")
        given = {name: getattr(self, name) for name in names if getattr(self, name) not in (None, False)}
        return {"time_is": self.time_is, **given}


def check_timezone(name: str) -> None:
    """Refuse what is no name of a time zone."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise OptionError(
            f"there is no time zone {name!r}: give UTC, or a name such as Europe/Berlin or America/New_York"
        ) from None
