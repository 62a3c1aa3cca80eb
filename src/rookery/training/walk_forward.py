"""Walk-forward tests: train on the past, test on the bars that follow, several times, and report on all tests as one.

No test chooses anything: of each fold's past, the last part is held out to choose the best checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.config import RunConfig, user_config
from rookery.console import say, silent
from rookery.data.splits import Split
from rookery.data.splits import walk_forward as walk_forward_splits
from rookery.errors import OptionError
from rookery.training.backtest.backtest import BacktestReport, make_report, world_to_test
from rookery.training.backtest.recording import MarketView, record_windows
from rookery.training.backtest.records import MarketFacts, WindowRecord
from rookery.training.evaluation.trained_run import open_run
from rookery.training.resolve.world_choice import World
from rookery.training.run.train import train

VALIDATION = 0.15  # of each fold's past
EMBARGO = 50  # bars, or more if observations need it


def walk_forward(
    world: str | Path | Mapping[str, Any] | RunConfig,
    folds: int = 4,
    *,
    embargo: int | None = None,
    expanding: bool = True,
    deterministic: bool = True,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Callable[[str], None] = say,
    **options: Any,
) -> BacktestReport:
    """Train `folds` agents on growing parts of the past, test each on the bars that follow, and report on all tests.

    Args:
        world: A market world, such as "forex", or a configuration, as `rookery.train` takes it.
        folds: How many times to train and test.
        embargo: Bars between the past and a test that nobody sees; if omitted 50, or as far as an observation looks
            back if that is longer.
        expanding: Whether the past of each fold begins with the first bar; if not, all have the same length.
        deterministic: Take deterministic actions in the tests instead of sampled ones.
        seed: Of sampled actions, and of the bootstrap.
        out: A folder to write the report to.
        progress: Called with a message when a fold begins and ends.
        options: Keys of the configuration of each run, as in `rookery.train`, such as `steps=200_000`.
    """
    config = user_config(world, **options)
    whole = MarketView(_kernel_world(world_to_test(config, {"split": "all"})))
    rows = len(np.unique(whole.market.times))
    embargo = max(EMBARGO, whole.reach) if embargo is None else embargo
    splits = walk_forward_splits(rows, folds, expanding=expanding, embargo=embargo)
    records: list[WindowRecord] = []
    facts: MarketFacts | None = None
    runs: list[str] = []
    for number, split in enumerate(splits, 1):
        progress(f"fold {number} of {folds}: train on {_bars(split.train)} bars, test on the {_bars(split.test)} after")
        run = train(_fold_config(config, split, number, embargo))
        with silent():
            trained = open_run(run.path, config.runs_dir, trust=True)
        tested = world_to_test(trained.config, {"split": split.test.tolist()})
        found, facts = record_windows(tested, trained.agent, deterministic=deterministic, seed=seed)
        records += [replace(record, fold=number) for record in found]
        runs.append(trained.run.name)
    assert facts is not None
    report = make_report(records, facts, _about(config, runs, deterministic), seed)
    if out is not None:
        report.write(out)
    return report


def _about(config: RunConfig, runs: list[str], deterministic: bool) -> dict[str, Any]:
    return {
        "run": config.name or f"{config.world} walk-forward",
        "fold_runs": runs,
        "checkpoint": "best checkpoint of each fold",
        "world": config.world,
        "split": f"walk-forward, {len(runs)} folds",
        "deterministic": deterministic,
    }


def _fold_config(config: RunConfig, split: Split, number: int, embargo: int) -> RunConfig:
    """The configuration of a fold's run: its past, less the last part, which chooses the best checkpoint."""
    first, end = int(split.train[0, 0]), int(split.train[-1, 1])
    start = end - int(VALIDATION * (end - first))
    if start - embargo - first < 2:
        raise OptionError(
            f"fold {number} has {end - first} bars to train on: fewer folds or a smaller embargo are needed"
        )
    options = {**config.world_options, "split": [[first, start - embargo]], "evaluation_split": [[start, end]]}
    monitor = config.monitor.model_copy(update={"report": False})
    name = f"{config.name or config.world.rpartition('/')[2]}-fold{number}"
    return config.model_copy(update={"world_options": options, "monitor": monitor, "name": name})


def _kernel_world(world: World) -> Any:
    if world.kernel_world is None:
        raise OptionError(
            f"{world.name} is not a market world: walk-forward tests are for crypto, forex and worlds like them"
        )
    return world.kernel_world


def _bars(ranges: np.ndarray) -> str:
    return f"{int(np.diff(ranges).sum()):,}"
