"""Small accounts for tests: bars, runs with random agents, a registry of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.data.dataset import Bars, Dataset
from rookery.data.storage import write
from rookery.deploy.paper.account_files import AccountFolder, Line
from rookery.deploy.paper.bar_sources import KillLimits
from rookery.deploy.paper.paper import PaperOptions, paper
from rookery.deploy.paper.parity import Parity, check_parity
from rookery.deploy.paper.traded_agents import open_agents
from rookery.training.storage.run_dir import RunDir
from training.finished import make_run

END = 1_735_689_600  # 2025-01-01, a Wednesday
FREE = KillLimits(max_drawdown=1.0, stale=0)
COINS, PAIRS = ("BTC/USD", "ETH/USD"), ("EURUSD", "USDJPY")
COLUMNS = ["close", "volume", "rsi_14", "ema_10", "signal"]


def bars(symbols: tuple[str, ...] = COINS, count: int = 120, seed: int = 1, timeframe: int = 300) -> Dataset:
    """Bars that jump, with a column that cannot be computed from the others."""
    rng = np.random.default_rng(seed)
    times = END - timeframe * np.arange(count)[::-1]
    found = []
    for number, symbol in enumerate(symbols):
        close = (1.1 + number) * np.exp(np.cumsum(rng.normal(0, 0.004, count)))
        opened = close * np.exp(rng.normal(0, 0.002, count))
        columns = {
            "open": opened, "high": np.maximum(opened, close) * 1.001, "low": np.minimum(opened, close) * 0.999,
            "close": close, "volume": rng.uniform(1, 2, count), "signal": rng.normal(size=count),
        }  # fmt: skip
        found.append(Bars(symbol, times, columns))
    return Dataset(tuple(found), timeframe, "24/7")


def stored(folder: Path, dataset: Dataset, name: str = "bars.parquet") -> str:
    write(dataset, folder / name)
    return str(folder / name)


def crypto_run(folder: Path, data: str, hidden: int = 8, **options: Any) -> RunDir:
    """A run of the crypto world with a random agent; another `hidden`, another agent."""
    options = {"data": data, "columns": COLUMNS, "lookback": 2, **options}
    return make_run(folder, "crypto", world_options=options, hidden=[hidden])


def forex_run(folder: Path, data: str, **options: Any) -> RunDir:
    options = {"data": data, "columns": ["rsi_14", "ema_10"], "lookback": 3, "cooldown": 1, **options}
    return make_run(folder, "forex", world_options=options, hidden=[8], normalise_observations=False)


def trade(what: Any, data: str, account: Path, **options: Any) -> list[Line]:
    """Trade on a file, and return the lines of the log."""
    options.setdefault("limits", FREE)
    options.setdefault("start", 1)
    paper(what, PaperOptions(data, account=account, **options))
    return AccountFolder(account).lines()


def parity(what: Any, account: Path) -> Parity:
    return check_parity(AccountFolder(account), open_agents(what))


def bars_of(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["kind"] == "bar"]


def shifted(dataset: Dataset, rows: int) -> Dataset:
    """Without the first rows."""
    return replace(dataset, bars=tuple(bars.rows(slice(rows, None)) for bars in dataset.bars))
