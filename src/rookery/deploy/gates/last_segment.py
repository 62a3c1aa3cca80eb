"""The bars that a market's candidates are compared on: the world's split "test", which no trial has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.config import RunConfig, build_config
from rookery.training.backtest.backtest import world_to_test
from rookery.training.backtest.figures import date_text
from rookery.training.backtest.recording import MarketView
from rookery.training.storage.run_dir import RunDir

SPLIT = "test"


@dataclass(frozen=True)
class LastSegment:
    """Bars by their data and their time. Comparisons on the same bars have the same `key`."""

    data_hash: str
    start: int  # when the first bar is complete: UTC seconds
    end: int  # the same of the last
    bars: int

    @property
    def key(self) -> str:
        """As the audit log records it."""
        return f"{self.data_hash}:{self.start}-{self.end}"

    @property
    def text(self) -> str:
        return f"{self.bars:,} bars from {date_text(self.start)} to {date_text(self.end)}"


def share_bars(key: str, other: str) -> bool:
    """Whether two keys are of bars at the same time. Bars that were added to a file since make another key, and most of
    the segment stays: who was compared on it was compared on these bars.

    >>> share_bars("a1:100-500", "b2:400-800"), share_bars("a1:100-500", "a1:501-800")
    (True, False)
    """
    (start, end), (other_start, other_end) = _span(key), _span(other)
    return start <= other_end and other_start <= end


def _span(key: str) -> tuple[int, int]:
    start, end = key.rpartition(":")[2].split("-")
    return int(start), int(end)


def last_segment(run: RunDir) -> LastSegment:
    """The last segment of the data that a run was trained on."""
    view = _view(build_config(run.read_config()), SPLIT)
    times = _times(view)
    return LastSegment(view.facts().fingerprint, int(times[0]), int(times[-1]), len(times))


def seen_bars(run: RunDir, segment: LastSegment) -> int:
    """How many bars of a segment a run has trained or evaluated on."""
    config = build_config(run.read_config())
    trained_on = config.world_options.get("split", "train")
    evaluated_on = config.world_options.get("evaluation_split") or (
        "validation" if trained_on == "train" else trained_on
    )
    times = np.concatenate([_times(_view(config, split)) for split in (trained_on, evaluated_on)])
    return int(np.sum((np.unique(times) >= segment.start) & (np.unique(times) <= segment.end)))


def _view(config: RunConfig, split: Any) -> MarketView:
    return MarketView(world_to_test(config, {"split": split}).kernel_world)


def _times(view: MarketView) -> np.ndarray:
    """The times of the bars in a world's windows, rising."""
    times = np.asarray(view.market.times)
    return np.unique(np.concatenate([times[first : last + 1] for first, last in view.windows]))
