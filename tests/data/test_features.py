"""Features: what they are, that they know nothing of the future, and what is rejected."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest
import talib
from hypothesis import given, settings
from hypothesis import strategies as st

from data.future_guard import random_bars, random_dataset, scramble_after
from rookery.data.dataset import Bars, Dataset
from rookery.data.features import CRYPTO_FEATURES, FOREX_FEATURES, OWN, add_features, feature_columns, first_valid
from rookery.data.indicators import NEEDS_MORE, find_indicator
from rookery.errors import DataError

FUNCTIONS = sorted(name.lower() for name in set(talib.get_functions()) - set(NEEDS_MORE))
SHORT = {
    "percentrank": "percentrank_20",
    "trix": "trix_9",
    "fractal": "fractal_3_3",
}  # few rows are enough for the guard
GUARDED = [*CRYPTO_FEATURES, *FOREX_FEATURES, *OWN, "bbands_20", "stoch_5_3_0_3_0", "macd_5_9_4"]


def one(values: list[float], volume: list[float] | None = None, times: list[int] | None = None) -> Dataset:
    """Bars with one price each."""
    prices = np.array(values, float)
    columns = dict.fromkeys(("open", "high", "low", "close"), prices)
    columns["volume"] = np.ones(len(values)) if volume is None else np.array(volume, float)
    return Dataset((Bars("EURUSD", np.array(times or 3600 * np.arange(len(values))), columns),), 3600, one_price=True)


@settings(max_examples=8, deadline=None)
@given(row=st.integers(150, 238), seed=st.integers(0, 10_000))
def test_no_feature_changes_with_later_bars(row: int, seed: int) -> None:
    """Other bars after a row, or none: every feature up to the row is the same, bit for bit."""
    data = random_dataset(symbols=1, rows=240, seed=seed)
    other = scramble_after(data, row, seed)
    known, changed = (add_features(each, GUARDED).bars[0] for each in (data, other))
    ended = add_features(Dataset((data.bars[0].rows(slice(row + 1)),), 300), GUARDED).bars[0]
    for name in feature_columns(GUARDED):
        assert known[name][: row + 1].tobytes() == changed[name][: row + 1].tobytes(), name
        assert known[name][: row + 1].tobytes() == ended[name].tobytes(), name
    assert known["rsi_14"][row + 1] != changed["rsi_14"][row + 1]


@settings(max_examples=5, deadline=None)
@given(row=st.integers(150, 238), seed=st.integers(0, 10_000))
def test_no_function_of_talib_looks_ahead(row: int, seed: int) -> None:
    """All of them, also those that some bars refuse, such as the inverse cosine of a price."""
    data = random_dataset(symbols=1, rows=240, seed=seed)
    other = scramble_after(data, row, seed)
    assert len(FUNCTIONS) > 150
    for name in FUNCTIONS:
        indicator = find_indicator(SHORT.get(name, name))
        assert indicator is not None
        known, changed = (indicator.compute(each.bars[0].columns) for each in (data, other))
        for column in indicator.columns:
            assert known[column][: row + 1].tobytes() == changed[column][: row + 1].tobytes(), column


def test_the_sets_of_the_worlds() -> None:
    data = random_dataset()
    crypto, forex = add_features(data, CRYPTO_FEATURES), add_features(data, FOREX_FEATURES)
    assert crypto.features == CRYPTO_FEATURES and len(crypto.column_names) == 14
    assert forex.features == FOREX_FEATURES and len(FOREX_FEATURES) == 9
    assert first_valid(crypto, CRYPTO_FEATURES) == 120 and first_valid(forex, FOREX_FEATURES) == 49
    for bars in crypto.bars:
        assert np.isfinite(bars["macd_hist"][33:]).all() and np.isnan(bars["macd_hist"][:33]).all()


def test_talib_gives_the_numbers() -> None:
    """Each symbol on its own."""
    data = add_features(random_dataset(), ["rsi_14", "macd", "bbands_20_2.5", "stoch", "adx_20", "cdldoji"])
    for bars in data.bars:
        close, high, low = bars["close"], bars["high"], bars["low"]
        np.testing.assert_array_equal(bars["rsi_14"], talib.RSI(close, 14))
        np.testing.assert_array_equal(bars["macd_signal"], talib.MACD(close)[1])
        np.testing.assert_array_equal(bars["bbands_20_2.5_upper"], talib.BBANDS(close, 20, 2.5)[0])
        np.testing.assert_array_equal(bars["stoch_slowd"], talib.STOCH(high, low, close)[1])
        np.testing.assert_array_equal(bars["adx_20"], talib.ADX(high, low, close, 20))
        doji = talib.CDLDOJI(bars["open"], high, low, close)
        np.testing.assert_array_equal(bars["cdldoji"][10:], doji[10:])
        assert np.isnan(bars["cdldoji"][:10]).all()  # TA-Lib writes 0 where it has not seen enough bars


def test_names_give_columns() -> None:
    assert feature_columns("macd, RSI_14,rsi_14") == ("macd", "macd_signal", "macd_hist", "rsi_14")
    columns = feature_columns(["aroon_14", "stochf_5_3", "plus_di_7"])
    assert columns == ("aroon_14_down", "aroon_14_up", "stochf_5_3_fastk", "stochf_5_3_fastd", "plus_di_7")
    data = add_features(random_dataset(), ["bbands_20_lower", "cci", "dx", "macd_hist"])
    assert data.features == ("bbands_20_lower", "cci", "dx", "macd_hist")


def test_vwap_is_weighted_by_volume_and_falls_back_to_the_mean() -> None:
    """Large volumes that have left the window leave no rounding behind."""
    prices, volumes = [1.0, 2.0, 3.0, 4.0, 6.0], [1e18, 1.0, 3.0, 0.0, 0.0]
    vwap = add_features(one(prices, volumes), ["vwap_2"])["EURUSD"]["vwap_2"]
    np.testing.assert_array_equal(vwap[1:], [1.0, 2.75, 3.0, 5.0])
    assert np.isnan(vwap[0])


def test_clocks_read_the_time_at_which_the_bar_is_complete() -> None:
    times = [int(datetime(2024, 1, day, hour, tzinfo=UTC).timestamp()) for day, hour in ((1, 0), (2, 6), (7, 18))]
    found = add_features(one([1.0, 1.0, 1.0], times=times), ["hour_sin", "cos_hour", "weekday_sin", "weekday_cos"])
    columns = found["EURUSD"]
    np.testing.assert_allclose(columns["hour_sin"], [0, 1, -1], atol=1e-15)
    np.testing.assert_allclose(columns["cos_hour"], [1, 0, 0], atol=1e-15)
    weekdays = 2 * np.pi * np.array([0, 1, 6]) / 7  # Monday, Tuesday, Sunday
    np.testing.assert_allclose(columns["weekday_sin"], np.sin(weekdays), atol=1e-15)
    np.testing.assert_allclose(columns["weekday_cos"], np.cos(weekdays), atol=1e-15)


def test_volatility_regime() -> None:
    """Calm and wild halves: after the change the last fifth of the window differs from the window."""
    steps = np.where(np.arange(400) < 200, 0.001, 0.01) * (-1.0) ** np.arange(400)
    regime = add_features(one(list(100 * np.cumprod(1 + steps))), ["volatility_regime_50"])["EURUSD"].columns
    values = regime["volatility_regime_50"]
    assert np.isnan(values[:50]).all()
    assert set(values[50:200]) == {0.0} and set(values[202:225]) == {1.0} and set(values[260:]) == {0.0}
    calmer = add_features(one(list(100 * np.cumprod(1 + steps[::-1]))), ["volatility_regime_50"])["EURUSD"]
    assert set(calmer["volatility_regime_50"][212:240]) == {-1.0}


def test_trend_regime() -> None:
    steps = np.concatenate([np.full(100, 0.001), 0.001 * (-1.0) ** np.arange(100), np.full(100, -0.001)])
    values = add_features(one(list(100 * np.cumprod(1 + steps))), ["trend_regime_40"])["EURUSD"]["trend_regime_40"]
    assert set(values[40:100]) == {1.0} and set(values[145:200]) == {0.0} and set(values[245:]) == {-1.0}
    still = add_features(one([5.0] * 200), ["trend_regime", "volatility_regime"])["EURUSD"]
    assert set(still["trend_regime"][120:]) == set(still["volatility_regime"][120:]) == {0.0}


def test_volume_regime() -> None:
    volumes = [1.0] * 100 + [3.0] * 60 + [0.0] * 200
    values = add_features(one([1.0] * 360, volumes), ["volume_regime_50"])["EURUSD"]["volume_regime_50"]
    assert set(values[49:100]) == {0.0} and set(values[110:120]) == {1.0} and set(values[170:200]) == {-1.0}
    assert set(values[220:]) == {0.0}  # no volume at all


def test_the_first_valid_row() -> None:
    data = add_features(Dataset((random_bars("A", 60, 1), random_bars("B", 90, 2)), 300), ["ema_10", "rsi_20"])
    assert first_valid(data["A"], ["ema_10"]) == 9
    assert first_valid(data["A"], ["ema_10", "rsi_20", "close"]) == 20
    assert first_valid(data["B"]) == first_valid(data) == 20
    assert first_valid(data["A"], []) == 0
    empty = data["A"].with_columns({"nothing": np.full(60, np.nan)})
    assert first_valid(empty) == 60
    with pytest.raises(DataError, match="A has no column 'rsi_7'; it has open, high"):
        first_valid(data["A"], ["rsi_7"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rsii_14", "'rsii_14' is not a feature: did you mean rsi_14?"),
        ("volatilty_regime", "did you mean volatility_regime?"),
        ("vwp_20", "did you mean vwap_20?"),
        ("", "'' is not a feature"),
        ("\n", "'' is not a feature"),
        ("rsi_0", "TA-Lib's RSI refuses timeperiod=0"),
        ("rsi_14_3", "TA-Lib's RSI has the parameters timeperiod"),
        ("cdldoji_3", "TA-Lib's CDLDOJI has no parameters"),
        ("rsi_14.5", "timeperiod of TA-Lib's RSI is an integer, not 14.5"),
        ("bbands_20_up", "bbands_20 gives bbands_20_upper, bbands_20_middle, bbands_20_lower"),
        ("hour_sin_3", "hour_sin takes no number"),
        ("vwap_0", "its shortest period is 1"),
        ("volatility_regime_4", "its shortest period is 5"),
        ("mavp_3", "it needs a column of periods"),
        ("rsi_300", "S0 has 300 bars, but the feature 'rsi_300' has its first value in bar 301"),
        ("vwap_301", "S0 has 300 bars, but the feature 'vwap_301' has its first value in bar 301"),
        ("trend_regime_300", "'trend_regime_300' has its first value in bar 301"),
        ("close", "the column 'close' exists already"),
        ("macd_signal", "coins.parquet: the column 'macd_signal' exists already; omit 'macd_signal'"),
        ("acos", "coins.parquet: S0, row 0, 2024-01-01 00:05:00 UTC: the feature 'acos' has no finite value"),
    ],
)
def test_what_is_refused(name: str, message: str) -> None:
    data = add_features(random_dataset(symbols=1), ["macd_signal"])
    named = Dataset(data.bars, 300, place="coins.parquet")
    with pytest.raises(DataError) as refused:
        add_features(named, [name])
    assert message in str(refused.value)


def test_a_column_with_holes_is_refused_by_row() -> None:
    with pytest.raises(DataError, match=r"EURUSD, row 2, 1970-01-01 02:00:00 UTC: .*'acos'.*close 1.5, .*: omit it"):
        add_features(one([0.5, 0.7, 1.5, 0.6]), ["acos"])


def test_the_longest_period_that_fits() -> None:
    data = random_dataset(symbols=1)
    for name in ("rsi_299", "vwap_300", "trend_regime_299", "volume_regime_300"):
        assert np.isfinite(add_features(data, [name]).bars[0][name]).sum() == 1


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = "import sys, rookery.data.features; print({'talib', 'polars', 'pandas', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
