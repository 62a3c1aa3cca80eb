"""Bars of a file, as if they came now: replayed at a speed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from rookery.data.dataset import Dataset
from rookery.deploy.paper.arrived_bars import Arrival, all_times, joined, last_time
from rookery.errors import OptionError


class FileBars:
    """Replays bars. A bar that nobody has traded on yet has not come yet, however long that took.

    Args:
        dataset: All bars of the file.
        speed: How many times faster than in the market; None: as fast as possible.
    """

    def __init__(self, dataset: Dataset, speed: float | None) -> None:
        self.dataset, self._speed = dataset, speed

    def arrivals(self, known: Dataset) -> Iterator[Arrival]:
        """Features are computed once, on all bars: a row of them depends on the rows before it alone."""
        last = last_time(known)
        complete = joined(known, self.dataset)
        given: Dataset | None = complete
        due = time.monotonic()
        times = all_times(complete)
        for moment in times[times > last].tolist():
            if self._speed is not None:
                due += min(moment - last, complete.timeframe) / self._speed
                time.sleep(max(0.0, due - time.monotonic()))
            yield Arrival(given, (moment,), False)
            given, last = None, moment


def parse_speed(text: str) -> float | None:
    """
    >>> parse_speed("60x"), parse_speed("0.5"), parse_speed("max")
    (60.0, 0.5, None)
    """
    if text.strip().lower() == "max":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x?", text.strip().lower())
    if found is None or float(found[1]) == 0:
        raise OptionError(f"speed should be a factor such as 60x, or max, got {text!r}")
    return float(found[1])
