"""Coarser bars from finer ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.data.dataset import Bars, Dataset
from rookery.data.opened_data import resample
from rookery.data.synth import synthesise
from rookery.errors import DataError

MONDAY = 1_704_067_200  # 2024-01-01 00:00 UTC


def minutes(*starts: int) -> Dataset:
    """Bars of a minute that start these minutes after midnight; the price of the bar at minute m is about m + 100."""
    price = 100.0 + np.array(starts)
    columns = {"open": price, "high": price + 0.5, "low": price - 0.5, "close": price + 0.25,
               "volume": np.ones(len(starts)), "rsi_14": price, "funding": np.full(len(starts), 0.1)}  # fmt: skip
    return Dataset((Bars("A", MONDAY + 60 * (np.array(starts, np.int64) + 1), columns),), 60)


def test_a_bar_belongs_to_the_time_at_which_it_is_complete() -> None:
    made = resample(minutes(*range(10)), "5m")
    assert made.timeframe == 300 and made.bars[0].times.tolist() == [MONDAY + 300, MONDAY + 600]
    second = {name: values[1] for name, values in made.bars[0].columns.items()}
    assert second == {"open": 105.0, "high": 109.5, "low": 104.5, "close": 109.25, "volume": 5.0, "rsi_14": 109.0,
                      "funding": pytest.approx(0.5)}  # fmt: skip


def test_the_first_and_the_last_bucket_are_dropped_if_they_are_incomplete() -> None:
    assert resample(minutes(*range(2, 14)), "5m").bars[0].times.tolist() == [MONDAY + 600]
    assert len(resample(minutes(*range(15)), "5m").bars[0]) == 3
    with pytest.raises(DataError, match="too few bars for one of 1h"):
        resample(minutes(*range(15)), "1h")


def test_gaps_are_not_filled() -> None:
    """A bucket with half of its bars is kept; with fewer, it is left out."""
    made = resample(minutes(0, 1, 2, 3, 5, 6, 10, 11, 12, 20, 21, 22, 23, 24), "5m").bars[0]
    assert made.times.tolist() == [MONDAY + 300, MONDAY + 900, MONDAY + 1500]


def test_weeks_begin_on_monday_and_closed_hours_are_not_missed() -> None:
    data = synthesise(1, 1000, "1h", kind="forex")
    weeks = resample(data, "1w").bars[0].times
    assert len(weeks) > 4 and ((weeks - MONDAY) % 604_800 == 0).all() and (np.diff(weeks) == 604_800).all()
    fridays = resample(data, "4h").bars[0].times
    assert ((fridays // 3600 - 20) % 24 == 0).any()


@pytest.mark.parametrize("timeframe", ["30s", "90s"])
def test_a_timeframe_that_does_not_fit_is_refused(timeframe: str) -> None:
    with pytest.raises(DataError, match="cannot become bars of"):
        resample(minutes(*range(10)), timeframe)


@settings(max_examples=60, deadline=None)
@given(
    holes=st.sets(st.integers(0, 119), max_size=40), cut=st.integers(0, 119), factor=st.sampled_from([2, 5, 15]),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_the_future_changes_nothing_that_was_known(holes: set[int], cut: int, factor: int, seed: int) -> None:
    """Bars after a time are changed at random, or left out: bars complete up to then are the same, bit for bit."""
    data = minutes(*(minute for minute in range(130) if minute not in holes))
    bars, known_at = data.bars[0], MONDAY + 60 * (cut + 1)
    later = bars.times > known_at
    rng = np.random.default_rng(seed)
    changed = {name: np.where(later, rng.uniform(1, 1e6, len(bars)), values) for name, values in bars.columns.items()}
    full = resample(data, 60 * factor).bars[0]
    known = full.rows(full.times <= known_at)
    other = resample(replace(data, bars=(Bars("A", bars.times, changed),)), 60 * factor).bars[0]
    assert_same(known, other.rows(other.times <= known_at))
    if len(known) > 1:  # of data that end earlier, the last bar is dropped if its last minute is missing
        shorter = resample(replace(data, bars=(bars.rows(~later),)), 60 * factor).bars[0]
        assert len(known) - len(shorter) in (0, 1)
        assert_same(known.rows(slice(0, len(shorter))), shorter)


def assert_same(first: Bars, second: Bars) -> None:
    assert first.times.tobytes() == second.times.tobytes()
    for name in first.columns:
        assert first[name].tobytes() == second[name].tobytes(), name
