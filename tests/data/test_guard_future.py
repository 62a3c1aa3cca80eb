"""Resampled bars, features and splits know nothing of later bars; and a way to make them that does is found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.future_guard import random_dataset, scramble_after
from rookery.data.dataset import Bars, Dataset
from rookery.data.features import add_features
from rookery.data.opened_data import resample
from rookery.data.splits import holdout, timeline, walk_forward

Make = Callable[[Dataset], Dataset]
ROWS = 400
FEATURES = ("rsi_5", "ema_10", "vwap_20", "macd_3_5_2", "volatility_regime", "trend_regime", "hour_sin")


def known(bars: Bars, time: int) -> dict[str, bytes]:
    """All that is known of a symbol at a time, bit for bit."""
    rows = bars.rows(bars.times <= time)
    return {"times": rows.times.tobytes(), **{name: column.tobytes() for name, column in rows.columns.items()}}


def leaks(make: Make, data: Dataset, row: int, seed: int) -> list[str]:
    """The columns that differ until the bar after a row when every bar after the row is another one, or is missing."""
    time = int(data.bars[0].times[row + 1]) - 1
    versions = [data, scramble_after(data, row, seed), with_holes(data, row, seed)]
    first, *others = [[known(bars, time) for bars in make(each).bars] for each in versions]
    return [name for other in others for a, b in zip(first, other, strict=True) for name in a if a[name] != b.get(name)]


def with_holes(data: Dataset, row: int, seed: int) -> Dataset:
    """Without half of the bars after the row."""
    later = np.arange(len(data.bars[0])) > row
    gone = later & (np.random.default_rng(seed).random(len(later)) < 0.5)
    return replace(data, bars=tuple(bars.rows(~gone) for bars in data.bars))


def joined(data: Dataset) -> Dataset:
    return resample(data, "15m")


MAKERS: dict[str, Make] = {
    "resampled": joined,
    "features": lambda data: add_features(data, FEATURES),
    "features of resampled bars": lambda data: add_features(joined(data), ("rsi_5", "ema_10", "vwap_5")),
    "resampled features": lambda data: joined(add_features(data, ("rsi_5", "ema_10"))),
}


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=5, deadline=None)
@given(row=st.integers(130, ROWS - 5), seed=st.integers(0, 10_000))
def test_later_bars_change_nothing(name: str, row: int, seed: int) -> None:
    assert leaks(MAKERS[name], random_dataset(2, ROWS, seed), row, seed) == []


def named_by_their_start(data: Dataset) -> Dataset:
    made = joined(data)
    return replace(made, bars=tuple(replace(bars, times=bars.times - made.timeframe) for bars in made.bars))


def filled_from_the_future(data: Dataset) -> Dataset:
    """Gaps in a grid of times, filled by the bar that follows them."""
    parts = []
    for bars in data.bars:
        grid = np.arange(bars.times[0], bars.times[-1] + 1, 300)
        parts.append(replace(bars.rows(np.searchsorted(bars.times, grid)), times=grid))
    return replace(data, bars=tuple(parts))


def centred_average(data: Dataset) -> Dataset:
    return replace(data, bars=tuple(bars.with_columns({"mean": np.convolve(bars["close"], np.ones(3) / 3, "same")})
                                    for bars in data.bars))  # fmt: skip


def divided_by_the_largest(data: Dataset) -> Dataset:
    return replace(data, bars=tuple(bars.with_columns({"close": bars["close"] / bars["close"].max()})
                                    for bars in data.bars))  # fmt: skip


@pytest.mark.parametrize(
    "make", [named_by_their_start, filled_from_the_future, centred_average, divided_by_the_largest]
)
def test_the_guard_notices_what_looks_ahead(make: Make) -> None:
    data = random_dataset(1, ROWS, seed=1)
    if make is filled_from_the_future:
        data = replace(data, bars=tuple(bars.rows(np.arange(ROWS) % 7 != 3) for bars in data.bars))
    assert any(leaks(make, data, row, seed=2) for row in range(200, 207))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), folds=st.integers(2, 5), embargo=st.integers(0, 5), expanding=st.booleans())
def test_splits_are_by_time_alone_and_train_on_the_past(seed: int, folds: int, embargo: int, expanding: bool) -> None:
    """Other prices change no split. Whatever is trained on is known `embargo` bars before the first bar of the test."""
    data = random_dataset(2, 200, seed)
    axis, other = timeline(data), timeline(scramble_after(data, 50, seed))
    made = [holdout(len(axis), embargo=embargo), *walk_forward(len(axis), folds, None, expanding, embargo)]
    again = [holdout(len(other), embargo=embargo), *walk_forward(len(other), folds, None, expanding, embargo)]
    for split, same in zip(made, again, strict=True):
        for part in ("train", "validation", "test"):
            assert getattr(split.to_times(axis), part).tolist() == getattr(same.to_times(other), part).tolist()
        assert split.rows("train").max() + embargo < split.rows("test").min()
        if len(split.validation):
            assert split.rows("train").max() + embargo < split.rows("validation").min()
            assert split.rows("validation").max() + embargo < split.rows("test").min()
