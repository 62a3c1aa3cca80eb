"""Bars for tests, and other bars after a row: what is known at the row must not change with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rookery.data.dataset import BAR_COLUMNS, PRICES, Bars, Dataset


def random_bars(symbol: str, rows: int, seed: int, price: float = 100.0, start: int = 1_704_067_200) -> Bars:
    """A random walk in bars of five minutes, each of which contains its open and its close."""
    return Bars(symbol, start + 300 * np.arange(1, rows + 1), _columns(np.random.default_rng(seed), rows, price))


def random_dataset(symbols: int = 2, rows: int = 300, seed: int = 0) -> Dataset:
    return Dataset(tuple(random_bars(f"S{each}", rows, 100 * seed + each) for each in range(symbols)), 300)


def scramble_after(dataset: Dataset, row: int, seed: int) -> Dataset:
    """Other bars after the row, in every column of every symbol. Times and the rows up to `row` stay.

    Prices stay positive, and high and low contain open and close. With one price per row they stay equal. Features
    and other columns become random numbers too, without NaN where there was none.
    """
    rng = np.random.default_rng(seed)
    return replace(dataset, bars=tuple(_scrambled(bars, row, rng, dataset.one_price) for bars in dataset.bars))


def _scrambled(bars: Bars, row: int, rng: np.random.Generator, one_price: bool) -> Bars:
    later = np.arange(len(bars)) > row
    fresh = _columns(rng, len(bars), float(bars["close"][max(row, 0)]) * float(np.exp(rng.normal(0, 0.5))))
    if one_price:
        fresh |= dict.fromkeys(PRICES, fresh["close"])
    for name in bars.columns:
        if name not in BAR_COLUMNS:
            fresh[name] = np.where(np.isnan(bars[name]), np.nan, rng.normal(size=len(bars)))
    return bars.with_columns({name: np.where(later, fresh[name], old) for name, old in bars.columns.items()})


def _columns(rng: np.random.Generator, rows: int, price: float) -> dict[str, np.ndarray]:
    close = price * np.exp(np.cumsum(rng.normal(0, 0.01, rows)))
    first = np.concatenate([[price], close[:-1]]) * np.exp(rng.normal(0, 0.001, rows))
    high = np.maximum(first, close) * (1 + 0.01 * rng.random(rows))
    low = np.minimum(first, close) * (1 - 0.01 * rng.random(rows))
    volume = np.where(rng.random(rows) < 0.1, 0.0, rng.lognormal(3, 1, rows))
    return dict(zip(BAR_COLUMNS, (first, high, low, close, volume), strict=True))
