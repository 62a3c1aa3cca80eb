"""A broker's table: files as brokers publish them, units that are named, and sizes that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.errors import DataError, OptionError
from rookery.worlds.market.broker_table import read_broker
from rookery.worlds.market.forex import forex
from rookery.worlds.market.forex_account import forex_account
from worlds.market.market_bars import random_bars

ROW = {"swap_long": -7.2, "swap_short": 2.1, "swap_unit": "points"}
CSV = """Symbol;Swap Long;Swap Short;Swap Type;Spread;Spread Unit;Digits;3-day swap
EUR/USD;-7.2;2.1;Points;0.8;pips;5;Wednesday
USDJPY;12.5;-25;points;0.9;pips;3;wed
EURGBP;-1.2;-3.4;percent;1.5;pips;;thursday
"""
TOML = """
swap_unit = "points"
spread_unit = "pips"
[EURUSD]
swap_long = -7.2
swap_short = 2.1
spread = 0.8
[USDJPY]
swap_long = 12.5
swap_short = -25
spread = 0.9
[EURGBP]
swap_long = -1.2
swap_short = -3.4
swap_unit = "percent"
spread = 1.5
triple = "thursday"
"""
PAIRS = ("EURUSD", "USDJPY", "EURGBP")


@pytest.mark.parametrize(("name", "text"), [("swaps.csv", CSV), ("swaps.toml", TOML)])
def test_files_say_what_each_pair_pays(name: str, text: str, tmp_path: Path) -> None:
    """A swap that is paid is negative in the file; the table of the world has what is paid."""
    (tmp_path / name).write_text("\ufeff" + text, encoding="utf-8")
    broker = read_broker(tmp_path / name)
    assert broker.swaps(PAIRS, [1.1, 150.0, 0.85]) == pytest.approx(
        np.array([[7.2e-5, -2.1e-5, 0, 0, 2], [-0.0125, 0.025, 0, 0, 2], [0, 0, 0.012, 0.034, 3]])
    )
    assert broker.terms("EURUSD").half_spread(np.array([1.0, 1.6])) == pytest.approx([4e-5, 2.5e-5])
    assert read_broker(broker.as_table()).rows == broker.rows


def test_the_table_takes_the_place_of_the_flat_rates_and_is_in_the_report() -> None:
    for make in (forex, forex_account):
        world = make(data=random_bars(), columns="noise", lookback=2, broker={"EURUSD": ROW})
        assert world.values["swap_long"] == 0 and world.values["half_spread"] == 0.00003
        assert "swap as the broker's table says" in world.costs.describe()
        table = {"EURUSD": {**ROW, "spread": 2.0, "spread_unit": "points"}}
        spreads = make(data=random_bars(), columns="noise", lookback=2, broker=table)
        assert spreads.values["half_spread"] == 0
        assert "half spread as the broker's table says" in spreads.costs.describe()
        assert "swap -7.2 (long) and 2.1 (short) points a night" in world.broker.describe(["EURUSD"])[0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"swap_unit": None}, "swap_unit should be one of points, pips, percent"),
        ({"swap_unit": "dollars"}, "swap_unit should be one of points, pips, percent, got 'dollars'"),
        ({"spread": 2.0}, "spread_unit should be one of points, pips"),
        ({"spread": -2.0, "spread_unit": "pips"}, "the spread is negative"),
        ({"swap_long": "much"}, "swap_long should be a number, got 'much'"),
        ({"swap_long": float("nan")}, "swap_long should be a number"),
        ({"triple": "sunday"}, "triple should be one of monday"),
        ({"digits": 12}, "digits should be an integer from 0 to 8"),
        ({"swap_longs": 3}, "there is no column 'swap_longs'"),
        # Sizes that can only be another unit, which the message names.
        ({"swap_long": -720.0, "swap_unit": "percent"}, "read as percent, the long swap of -720 is 720 %"),
        ({"swap_long": -72.0, "digits": 3}, "read as points, the long swap of -72 is .* can only be another unit"),
        ({"swap_long": -80.0, "swap_unit": "pips"}, "read as pips, the long swap of -80"),
        ({"swap_long": 7.2, "swap_short": -2.1}, "by being long and short at once"),
        ({"spread": 300.0, "spread_unit": "pips"}, "read as pips, the spread of 300 is"),
    ],
)
def test_a_table_that_cannot_be_is_refused(table: dict[str, Any], message: str) -> None:
    row = {name: value for name, value in {**ROW, **table}.items() if value is not None}
    with pytest.raises(DataError, match=message):
        forex(data=random_bars(), columns="noise", lookback=2, broker={"EURUSD": row})


def test_what_the_table_does_not_have_is_not_zero() -> None:
    data = random_bars(("EURUSD", "GBPUSD"))
    with pytest.raises(DataError, match="GBPUSD: the broker's table has no row for it"):
        forex_account(data=data, columns="noise", broker={"EURUSD": ROW})
    both = {"EURUSD": ROW, "GBPUSD": {"spread": 1.0, "spread_unit": "pips"}}
    with pytest.raises(DataError, match="EURUSD: the broker's table has no spread for it, and others have one"):
        forex_account(data=data, columns="noise", broker=both)
    with pytest.raises(DataError, match="XAUUSD: the broker's table needs `digits`"):
        forex(data=random_bars(("XAUUSD",)), columns="noise", broker={"XAUUSD": ROW})
    with pytest.raises(DataError, match="belong together"):
        read_broker({"EURUSD": {"swap_long": 1.0, "swap_unit": "pips"}})


def test_files_that_are_no_table_are_refused(tmp_path: Path) -> None:
    for name, text, message in (
        ("a.csv", "EURUSD,-7.2,2.1\n", "the first line should name columns"),
        ("b.csv", CSV + "USDJPY;1;2;points;1;pips;3;wed\n", "USDJPY has two rows"),
        ("c.toml", "EURUSD = ", "is not valid TOML"),
        ("d.toml", "swap_unit = 'points'", "has no pair"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError, match=message):
            read_broker(tmp_path / name)
    with pytest.raises(DataError, match="cannot be read"):
        read_broker(tmp_path / "none.csv")
    with pytest.raises(OptionError, match="broker should be the path"):
        read_broker(3)
