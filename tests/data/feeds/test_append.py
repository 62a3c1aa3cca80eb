"""Stored bars and what their source has now, for all kinds of both."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.data.dataset import BAR_COLUMNS, Bars, Dataset
from rookery.data.features import add_features
from rookery.data.feeds.feed import merged
from rookery.data.feeds.update import joined

FIVE = 300


def bars(rows: np.ndarray, seed: int) -> Bars:
    """Bars at these steps; the same seed gives the same values at the same step."""
    values = np.random.default_rng(seed).uniform(1, 2, (400, len(BAR_COLUMNS)))
    return Bars("BTC/USD", rows * FIVE, {name: values[rows, i].copy() for i, name in enumerate(BAR_COLUMNS)})


def steps(first: int, last: int) -> st.SearchStrategy[np.ndarray]:
    """Some of the numbers from first to last, at least twelve."""
    seeds, parts = st.integers(0, 2**32 - 1), st.integers(12, last - first)
    return st.builds(lambda seed, part: first + np.sort(
        np.random.default_rng(seed).choice(last - first + 1, part, replace=False)), seeds, parts)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(stored=steps(0, 200), found=steps(100, 399), same_values=st.booleans(), revise=st.booleans())
def test_stored_rows_stay_and_newer_ones_follow(
    stored: np.ndarray, found: np.ndarray, same_values: bool, revise: bool
) -> None:
    data = add_features(Dataset((bars(stored, 1),), FIVE), ["sma_3", "mom_1", "hour_sin"])
    old, new = data.bars[0], bars(found, 1 if same_values else 2)
    result = joined(old, new, data, revise)
    newer = found[found > stored[-1]]
    assert result.added == len(newer)
    assert (np.diff(result.bars.times) > 0).all()
    assert tuple(result.bars.columns) == tuple(old.columns)
    assert len(result.revised) == (0 if same_values else len(np.intersect1d(stored, found)))
    if not revise:
        assert result.bars.times.tolist() == [*old.times, *newer * FIVE]
        for name in old.columns:
            assert result.bars[name][: len(old)].tobytes() == old[name].tobytes()
    if revise or same_values:  # as if all had been there from the beginning
        bare = Bars("BTC/USD", result.bars.times, {name: result.bars[name] for name in BAR_COLUMNS})
        fresh = add_features(Dataset((bare,), FIVE), ["sma_3", "mom_1", "hour_sin"]).bars[0]
        for name in fresh.columns:
            assert result.bars[name].tobytes() == fresh[name].tobytes()
    if revise:
        taken = np.isin(result.bars.times, new.times)
        inside = np.isin(new.times, result.bars.times)
        assert result.bars["close"][taken].tobytes() == new["close"][inside].tobytes()
        assert inside[found > stored[0]].all()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=8), max_size=5))
def test_pages_in_any_order_make_each_bar_once_as_it_came_last(pages: list[list[tuple[int, int]]]) -> None:
    arrays = [np.array([[start, *[value] * 5] for start, value in page], float).reshape(-1, 6) for page in pages]
    last = {start: value for page in pages for start, value in page}
    assert merged(arrays)[:, :2].tolist() == [[start, last[start]] for start in sorted(last)]
