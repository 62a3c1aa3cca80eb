"""Small sets of bars for tests."""

from __future__ import annotations

import numpy as np

from rookery.data.dataset import Bars, Dataset
from rookery.data.synth import END

START = END - END % 604_800 - 604_800  # a Thursday at 00:00 UTC


def random_bars(
    symbols: tuple[str, ...] = ("EURUSD",), count: int = 400, seed: int = 1, timeframe: int = 3600, move: float = 0.01,
    calendar: str = "24/7", **columns: float,
) -> Dataset:  # fmt: skip
    """Bars that jump: every open differs from the close before it."""
    rng = np.random.default_rng(seed)
    found = []
    for symbol in symbols:
        close = 1.1 * np.exp(np.cumsum(rng.normal(0, move, count)))
        open_ = close * np.exp(rng.normal(0, move, count))
        found.append(
            Bars(
                symbol,
                START + timeframe * np.arange(1, count + 1),
                {
                    "open": open_, "high": np.maximum(open_, close) * 1.001, "low": np.minimum(open_, close) * 0.999,
                    "close": close, "volume": rng.uniform(1, 2, count),
                    "noise": rng.normal(0, 1, count),
                    **{name: np.full(count, value) for name, value in columns.items()},
                },
            )
        )  # fmt: skip
    return Dataset(tuple(found), timeframe, calendar)
