"""Rows of the market worlds' table: what is learned, and how long it takes from bars to a report."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import rookery
from engine_rows import Row
from rookery.data.dataset import Dataset
from rookery.data.opened_data import open_data
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.training.walk_forward import walk_forward

SIGNIFICANT = 0.01
OPTIONS: dict[str, Any] = {"columns": "close,signal", "lookback": 2}


def signal_rows(rounds: int, quick: bool) -> list[Row]:
    """A planted signal must be found, and noise that looks like it must not: Sharpe ratio above hold, unseen bars."""
    steps = 100_000 if quick else 600_000
    planted = synthesise(1, 12_000, "1h", seed=5, signal=0.2, kind="forex", symbols=("EURUSD",))
    empty = _with_noise(synthesise(1, 12_000, "1h", seed=6, kind="forex", symbols=("EURUSD",)))
    (found, seconds), (nothing, _) = (_trained(data, steps) for data in (planted, empty))
    return [
        Row("planted signal: p of a Sharpe ratio above hold", *_sharpes(found), _p(found), SIGNIFICANT, "", most=True),
        Row("planted signal: time to the report", "", "", seconds / 60, 5, " min", most=True),
        Row("no signal: p of a Sharpe ratio above hold", *_sharpes(nothing), _p(nothing), SIGNIFICANT, ""),
    ]


def _with_noise(data: Dataset) -> Dataset:
    """With a column `signal` that says nothing."""
    bars = data.bars[0]
    noise = np.random.default_rng(1).normal(size=len(bars))
    return Dataset((bars.with_columns({"signal": noise}),), data.timeframe, data.calendar, history=data.history)


def _trained(data: Dataset, steps: int) -> tuple[Any, float]:
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        write(data, Path(folder) / "bars.parquet")
        options = {**OPTIONS, "data": f"{folder}/bars.parquet"}
        result = rookery.train("forex", steps=steps, world_options=options, runs_dir=folder, name="run")
        return rookery.backtest(result.path), time.perf_counter() - started


def _p(report: Any) -> float:
    """An account that never changed is not better than hold."""
    found = report["certainty"]["p_value"]
    return 1.0 if found is None else float(found)


def _sharpes(report: Any) -> tuple[str, str]:
    agent, hold = (report[name]["sharpe"] for name in ("agent", "hold"))
    return tuple("none" if figure is None else f"{figure:.2f} a year" for figure in (agent, hold))  # type: ignore[return-value]


def eurusd_bars() -> Dataset | None:
    """The bars of EURUSD that come with gym-anytrading: hours of 2017, in UTC by its own loader, day first."""
    spec = importlib.util.find_spec("gym_anytrading")
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / "datasets" / "data" / "FOREX_EURUSD_1H_ASK.csv"
    data = open_data(file, calendar="forex", timezone="UTC", day_first=True)
    return replace(data, bars=(replace(data.bars[0], symbol="EURUSD"),))


def eurusd_rows(rounds: int, quick: bool) -> list[Row]:
    """Training, a walk-forward test and the report on real bars."""
    data = eurusd_bars()
    if data is None:
        print("gym-anytrading is not installed: the row of its EURUSD file is omitted", file=sys.stderr)
        return []
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        write(data, Path(folder) / "EURUSD.parquet")
        steps = 20_000 if quick else 200_000
        options = {"data": f"{folder}/EURUSD.parquet"}
        report = walk_forward("forex", 3, steps=steps, world_options=options, runs_dir=folder, out=f"{folder}/report")
    print(f"EURUSD, 1 h, walk-forward: {report}")
    minutes = (time.perf_counter() - started) / 60
    verdict = f"p = {_p(report):.3f}"
    return [Row("EURUSD 1 h: train, walk forward in 3 folds, report", verdict, "", minutes, 3, " min", most=True)]


def first_command_rows(rounds: int, quick: bool) -> list[Row]:
    """`rookery train crypto` and nothing else, to a report."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rookery", "train", "crypto", *(["--steps", "50000"] if quick else [])]
        started = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        minutes = (time.perf_counter() - started) / 60
        reports = len(list(Path(folder).glob("runs/*/report/report.html")))
    return [
        Row("rookery train crypto: to the end", "", "", minutes, 3, " min", most=True),
        Row("rookery train crypto: reports written", "", "", float(reports), 1, ""),
    ]


ROWS = {"signal": signal_rows, "eurusd": eurusd_rows, "first": first_command_rows}
