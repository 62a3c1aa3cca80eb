"""The world of an account is the one of training: columns, scaling, and rows that come one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.paper.trading import COLUMNS, PAIRS, bars, crypto_run, forex_run, stored
from rookery.config import build_config
from rookery.data.dataset import Dataset
from rookery.deploy.paper.book import Book
from rookery.deploy.paper.paper_world import (
    MarketForm,
    PaperWorld,
    first_bar,
    form_of,
    last_training_time,
    training_world,
)
from rookery.errors import DataError, WorldError
from rookery.training.storage.run_dir import RunDir
from rookery.worlds.market.crypto import Crypto, CryptoWeights

EVERYTHING = [
    "open", "high", "low", "close", "volume", "macd", "macd_signal", "rsi_14", "ema_50", "cci_14", "dx_14", "vwap_20",
    "volatility_regime", "trend_regime", "volume_regime", "natr_14", "bbands_20_upper", "obv", "hour_sin", "signal",
]  # fmt: skip


def config_of(run: RunDir) -> Any:
    return build_config(run.read_config())


def until(dataset: Dataset, rows: int) -> Dataset:
    return replace(dataset, bars=tuple(bars.rows(slice(rows)) for bars in dataset.bars))


@pytest.mark.parametrize(
    "scaling", ["relative", pytest.param("power", marks=pytest.mark.slow), pytest.param("none", marks=pytest.mark.slow)]
)
def test_growing_rows_equal_the_complete_series(scaling: str, tmp_path: Path) -> None:
    """To the bit, for every feature: else `extend` would refuse them."""
    data = stored(tmp_path, bars(count=300))
    run = crypto_run(tmp_path, data, columns=EVERYTHING, scaling=scaling)
    world = PaperWorld(config_of(run), form_of(config_of(run)))
    book = Book(world.build(until(bars(count=300), 200)), 0, world.form.symbols)
    for rows in range(201, 301, 3):
        book.extend(world.build(until(bars(count=300), rows)))
    whole = world.build(bars(count=300))
    known = len(whole.market.times)
    assert np.array_equal(book._features[:known].reshape(-1), whole.tables["features"])
    assert np.array_equal(book._bars[:known], whole.tables["bars"])


def test_changed_rows_are_refused(tmp_path: Path) -> None:
    data = stored(tmp_path, bars())
    run = crypto_run(tmp_path, data)
    world = PaperWorld(config_of(run), form_of(config_of(run)))
    book = Book(world.build(bars()), 0, world.form.symbols)
    with pytest.raises(DataError, match="have other values now"):
        book.extend(world.build(bars(seed=2)))


@pytest.mark.parametrize("kind", ["crypto", "forex"])
def test_power_scaling_is_that_of_training(kind: str, tmp_path: Path) -> None:
    """On the training data itself it gives the same numbers, and on other data the factors of the training data."""
    symbols = PAIRS if kind == "forex" else ("BTC/USD", "ETH/USD")
    whole = bars(symbols, 200, timeframe=3600)
    data = stored(tmp_path, whole)
    columns = ["close", "volume", "rsi_14"]
    run = (forex_run if kind == "forex" else crypto_run)(tmp_path, data, columns=columns, scaling="power")
    config = config_of(run)
    form = form_of(config)
    trained = training_world(config)
    assert np.array_equal(PaperWorld(config, form).build(whole).tables["features"], trained.tables["features"])
    larger = replace(whole, bars=tuple(b.with_columns({"volume": 1024 * b["volume"]}) for b in whole.bars))
    found = PaperWorld(config, form).build(larger).tables["features"].reshape(len(trained.market.times), -1)
    usual = np.asarray(trained.tables["features"]).reshape(len(trained.market.times), -1)
    assert np.array_equal(found[:, 1], 1024 * usual[:, 1])
    assert np.array_equal(found[:, 0], usual[:, 0])


def test_columns_are_those_of_training(tmp_path: Path) -> None:
    """Other bars may lack a column, or have more: what the agent observes does not change in silence."""
    run = crypto_run(tmp_path, stored(tmp_path, bars()), columns=None)
    form = form_of(config_of(run))
    assert form.columns == ("open", "high", "low", "close", "volume", "signal")
    assert MarketForm.from_json(form.as_json()) == form
    world = PaperWorld(config_of(run), form)
    more = replace(bars(), bars=tuple(b.with_columns({"another": b["close"]}) for b in bars().bars))
    assert world.build(more).market.columns == form.columns
    less = tuple(replace(b, columns={k: v for k, v in b.columns.items() if k != "signal"}) for b in bars().bars)
    with pytest.raises(DataError, match="signal"):
        world.build(replace(bars(), bars=less))


def test_training_data_that_are_gone(tmp_path: Path) -> None:
    """If the options say everything, they are not needed; else the remedy is named."""
    options = {"symbols": ["BTC/USD", "ETH/USD"], "timeframe": "5m"}
    for number, more in enumerate((options, {})):
        data = stored(tmp_path, bars(), f"{number}.parquet")
        config = config_of(crypto_run(tmp_path, data, **more))
        Path(data).unlink()
        if more:
            assert form_of(config).timeframe == 300
        else:
            with pytest.raises(DataError, match=r"cannot be read .* put them back"):
                form_of(config)


def test_first_bar_is_after_training(tmp_path: Path) -> None:
    whole = bars(count=300)
    config = config_of(crypto_run(tmp_path, stored(tmp_path, whole)))
    form = form_of(config)
    found, last = first_bar(config, form, whole, None), last_training_time(config)
    assert last < found and whole.bars[0].times[253] >= last  # of training and validation: the first 85 %
    assert first_bar(config, form, whole, found + 600) == found + 600
    assert first_bar(config, form, whole, 1) < found


class OwnWeights(CryptoWeights):
    """A world of a user's own, by another name."""


@pytest.mark.usefixtures("plain_python")
@pytest.mark.push("Crypto", "OwnWeights")
@pytest.mark.parametrize("kind", [Crypto, CryptoWeights, OwnWeights])
def test_the_world_says_which_action_orders_nothing(kind: type[Crypto]) -> None:
    """Whatever its class is called."""
    dataset = bars()
    book = Book(kind(data=dataset, columns=COLUMNS, lookback=2), 0, dataset.symbols)
    book.begin(int(book.times[60]), 100_000.0)
    book.step(np.full(len(dataset.symbols), 0.5, np.float32), closing=False)
    assert book.positions.any()
    held = book.positions
    assert book.step(book.hold_action(), closing=False)["trades"] == 0
    assert np.array_equal(book.positions, held)
    book.step(book.closing_action(), closing=True)
    assert not book.positions.any()


def test_a_world_without_such_actions_is_refused() -> None:
    class Silent(Crypto):
        hold_action = None  # type: ignore[assignment]

    dataset = bars()
    with pytest.raises(WorldError, match=r"Silent cannot be traded on paper: it needs a method hold_action\(state"):
        Book(Silent(data=dataset), 0, dataset.symbols)
