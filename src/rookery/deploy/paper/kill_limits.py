"""When paper trading must stop: options of the kill-switch, and what is checked of times."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from rookery.data.feeds.fetch import time_name
from rookery.data.gaps import closures
from rookery.data.timeframes import timeframe_name
from rookery.errors import KillSwitch, OptionError


@dataclass(frozen=True)
class KillLimits:
    """The limits of the kill-switch.

    Attributes:
        max_drawdown: The part of its highest value that an account may lose; 1: all of it.
        stale: Bars that may be missing while the market is open; 0: any number.
        clock_skew: Seconds by which this machine's clock and the feed's may differ, and by which a bar may be from the
            future; 0: any number.
    """

    max_drawdown: float = 0.2
    stale: int = 3
    clock_skew: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.max_drawdown <= 1:
            raise OptionError(f"max_drawdown should be a part of the account, such as 0.2, got {self.max_drawdown!r}")
        if self.stale < 0 or self.clock_skew < 0 or not math.isfinite(self.clock_skew):
            raise OptionError(f"stale and clock_skew should be >= 0, got {self.stale!r} and {self.clock_skew!r}")

    def check_gap(self, last: int, now: float, timeframe: int, calendar: str, arrived: bool) -> None:
        """Stop if no bar has come for too long. `arrived`: one comes at `now`."""
        missing = open_seconds(last, now, calendar) / timeframe - (1 if arrived else 0)
        if self.stale and missing > self.stale + (0 if arrived else 1):
            raise KillSwitch(
                f"no bar of {timeframe_name(timeframe)} since {time_name(last)}, while the market was open for "
                f"{missing:.0f} of them ({self.stale} are allowed)",
                "stale-data",
            )

    def check_future(self, bar: int) -> None:
        """Stop if a bar is complete only in the future."""
        ahead = bar - time.time()
        if self.clock_skew and ahead > self.clock_skew:
            raise KillSwitch(
                f"a bar is complete at {time_name(bar)}, which is {ahead:.0f} s in the future by this machine's clock",
                "clock-skew",
            )

    def check_clock(self, ahead: float | None, who: str) -> None:
        """Stop if this machine's clock differs from the feed's."""
        if self.clock_skew and ahead is not None and abs(ahead) > self.clock_skew:
            side = "ahead of" if ahead > 0 else "behind"
            raise KillSwitch(
                f"this machine's clock is {abs(ahead):.0f} s {side} that of {who} ({self.clock_skew:g} s are allowed)",
                "clock-skew",
            )


def open_seconds(start: float, end: float, calendar: str) -> float:
    """The seconds between two times at which the market is open.

    >>> open_seconds(0, 600, "24/7")
    600.0
    """
    closed = closures(calendar, int(start), int(end))
    overlap = np.minimum(closed[:, 1], end) - np.maximum(closed[:, 0], start)
    return float(end - start - np.maximum(overlap, 0).sum())
