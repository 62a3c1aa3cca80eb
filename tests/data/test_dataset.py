"""Bars in memory."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.data.calendars import timeframe_seconds
from rookery.data.dataset import BAR_COLUMNS, Bars, Dataset
from rookery.errors import DataError


def bars(symbol: str, count: int = 5, **more: float) -> Bars:
    columns = {name: np.arange(1.0, count + 1.0) for name in BAR_COLUMNS}
    return Bars(symbol, 300 * np.arange(1, count + 1), columns | {name: np.full(count, v) for name, v in more.items()})


def test_a_symbol_is_found_by_its_name_and_a_wrong_one_is_named() -> None:
    data = Dataset((bars("BTC", rsi_14=50.0), bars("ETH", rsi_14=40.0, extra=1.0)), 300, place="coins.parquet")
    assert data.symbols == ("BTC", "ETH")
    assert data.features == ("rsi_14",)  # not `extra`, which one symbol lacks
    assert data["ETH"]["rsi_14"][0] == 40.0
    with pytest.raises(DataError, match=r"coins.parquet: there is no symbol 'DOGE'; it has BTC, ETH"):
        data["DOGE"]


def test_a_selection_has_the_bars_that_are_complete_after_its_start_and_up_to_its_end() -> None:
    part = Dataset((bars("BTC"), bars("ETH")), 300).select(["ETH"], start=300, end=900)
    assert part.symbols == ("ETH",)
    assert part["ETH"].times.tolist() == [600, 900]
    assert part["ETH"]["close"].tolist() == [2.0, 3.0]


def test_the_hash_is_of_the_contents_and_not_of_the_history() -> None:
    data = Dataset((bars("BTC"),), 300)
    assert data.hash == Dataset((bars("BTC"),), 300, history=({"command": "synth"},), place="elsewhere").hash
    changed = bars("BTC").with_columns({"close": np.array([1.0, 2.0, 3.0, 4.0, 5.5])})
    others = [Dataset((changed,), 300), Dataset((bars("BTC"),), 600), Dataset((bars("XBT"),), 300)]
    assert len({data.hash, *(other.hash for other in others)}) == 4


@pytest.mark.parametrize("text", ["", "0m", "1M", "m5", "five", "5x", True, -1, 0])
def test_a_wrong_timeframe_is_refused(text: object) -> None:
    with pytest.raises(DataError, match="is not a timeframe"):
        timeframe_seconds(text)  # type: ignore[arg-type]
