"""Synthetic bars."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.data.calendars import segments
from rookery.data.checks import problems
from rookery.data.dataset import Dataset
from rookery.data.synth import shipped, synthesise
from rookery.errors import DataError, OptionError


def returns(data: Dataset, symbol: int = 0) -> np.ndarray:
    close = data.bars[symbol]["close"]
    return close[1:] / close[:-1] - 1


def test_the_same_seed_gives_the_same_bars_and_another_seed_others() -> None:
    first, second, other = (synthesise(2, 300, seed=seed).hash for seed in (1, 1, 2))
    assert first == second != other


def test_bars_are_those_of_every_cpu() -> None:
    """Prices are rounded, and made without functions that differ in the last bit."""
    data = synthesise(2, 500, "1h", seed=3, signal=0.3, signal_half_life=24.0, kind="forex")
    assert [data.bars[1][name][-1] for name in ("open", "close", "signal")] == [1.3904021, 1.3908569, -1.475263]


@pytest.mark.parametrize("kind", ["crypto", "forex", "walk"])
def test_every_kind_passes_the_check(kind: str) -> None:
    data = synthesise(3, 2000, "1h", kind=kind, signal=0.5)
    assert problems(data) == []
    assert len(segments(data.bars[0].times, data.timeframe, data.calendar)) == 1


def test_forex_rests_at_weekends() -> None:
    times = synthesise(1, 500, "1h", kind="forex").bars[0].times
    assert (np.diff(times) == 49 * 3600).sum() >= 3


def test_the_signal_is_known_before_the_return_that_it_foretells() -> None:
    """Its strength is the correlation with the next return, in units of volatility; it says nothing of this one's
    noise."""
    data = synthesise(1, 50_000, signal=0.3, signal_half_life=1.0, kind="walk")
    signal, moved = data.bars[0]["signal"], returns(data)
    assert np.corrcoef(signal[:-1], moved)[0, 1] == pytest.approx(0.3, abs=0.02)
    assert signal.std() == pytest.approx(1.0, abs=0.05)
    assert np.corrcoef(signal[1:], moved)[0, 1] == pytest.approx(0.15, abs=0.02)  # what is left of it after a bar


def test_the_foretold_return_can_be_earned_at_the_next_open() -> None:
    bars = synthesise(1, 2000, signal=1.0, kind="walk").bars[0]
    earned = bars["close"][1:] / bars["open"][1:] - 1
    assert np.corrcoef(earned, bars["signal"][:-1])[0, 1] > 0.99


def test_a_walk_has_no_drift_and_normal_returns() -> None:
    moved = returns(synthesise(1, 50_000, kind="walk"))
    assert abs(moved.mean()) < 4 * moved.std() / np.sqrt(len(moved))
    assert np.mean(moved**4) / np.mean(moved**2) ** 2 == pytest.approx(3.0, abs=0.2)


def test_crypto_has_fat_tails_clusters_and_correlated_assets() -> None:
    data = synthesise(2, 20_000)
    first, second = returns(data), returns(data, 1)
    assert np.mean(first**4) / np.mean(first**2) ** 2 > 5
    assert np.corrcoef(abs(first[1:]), abs(first[:-1]))[0, 1] > 0.1
    assert 0.4 < np.corrcoef(first, second)[0, 1] < 0.8


def test_names_are_the_kinds_own_then_numbered_or_given() -> None:
    assert synthesise(9, 10).symbols[-2:] == ("COIN8", "COIN9")
    assert synthesise(bars=10, symbols=["A", "B"]).symbols == ("A", "B")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"assets": 0}, "assets"), ({"bars": 1}, "bars"), ({"signal": 1.5}, "signal"), ({"kind": "stocks"}, "kind"),
     ({"symbols": ["A", "A"]}, "symbols"), ({"correlation": 1.0}, "correlation"), ({"volatility": 0.0}, "volatility"),
     ({"signal_half_life": 0.0}, "signal_half_life"), ({"seed": -1}, "seed")],
)  # fmt: skip
def test_a_wrong_option_is_named(wrong: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        synthesise(**{"bars": 10, **wrong})


def test_bars_of_centuries_are_refused() -> None:
    with pytest.raises(DataError, match="before 1900"):
        synthesise(1, 100_000, "1d")


@pytest.mark.parametrize(("kind", "symbols", "columns"), [("crypto", 7, 15), ("forex", 4, 15)])
def test_the_shipped_bars_have_the_features_of_their_world_and_a_signal(kind: str, symbols: int, columns: int) -> None:
    data = shipped(kind)
    assert len(data.symbols) == symbols and len(data.column_names) == columns and "signal" in data.features
    assert problems(data) == [] and shipped(kind) is data and not data.bars[0]["close"].flags.writeable


def test_there_is_no_other_shipped_data() -> None:
    with pytest.raises(OptionError, match="no shipped data 'stocks'"):
        shipped("stocks")
