"""The helper of the future guards: it changes what comes later, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.future_guard import random_dataset, scramble_after
from rookery.data import features
from rookery.data.checks import refuse_bad
from rookery.data.dataset import PRICES
from rookery.data.features import add_features
from rookery.data.indicators import OwnFeature


@settings(max_examples=20, deadline=None)
@given(row=st.integers(0, 98), seed=st.integers(0, 1000))
def test_later_bars_are_others_and_valid(row: int, seed: int) -> None:
    data = add_features(random_dataset(rows=100, seed=seed), ["rsi_14"])
    other = scramble_after(data, row, seed)
    refuse_bad(other)
    for old, new in zip(data.bars, other.bars, strict=True):
        assert (old.times == new.times).all()
        for name in old.columns:
            assert old[name][: row + 1].tobytes() == new[name][: row + 1].tobytes()
            assert (np.isnan(old[name]) == np.isnan(new[name])).all()
        assert (new["close"][row + 1 :] != old["close"][row + 1 :]).all()


def test_one_price_per_row_stays_one() -> None:
    data = random_dataset(rows=50)
    bars = tuple(each.with_columns(dict.fromkeys(PRICES, each["close"])) for each in data.bars)
    other = scramble_after(replace(data, bars=bars, one_price=True), 20, 1)
    for each in other.bars:
        assert all((each[name] == each["close"]).all() for name in PRICES)


def test_a_feature_that_looks_ahead_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mean of three bars with the row in the middle, as a slip in an index makes it."""

    def centred(times: np.ndarray, columns: dict[str, np.ndarray], period: int) -> np.ndarray:
        return np.convolve(columns["close"], np.ones(3) / 3, "same")

    monkeypatch.setitem(features.OWN, "centred_mean", OwnFeature(centred))
    data = random_dataset(rows=100)
    known, changed = (add_features(each, ["centred_mean"]).bars[0] for each in (data, scramble_after(data, 50, 1)))
    assert known["centred_mean"][:50].tobytes() == changed["centred_mean"][:50].tobytes()
    assert known["centred_mean"][50] != changed["centred_mean"][50]
