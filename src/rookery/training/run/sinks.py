"""Who listens to a run: the terminal, files, and services that were asked for."""

from __future__ import annotations

from rookery.config import RunConfig
from rookery.monitor.events import Sinks
from rookery.monitor.jsonl import JsonLines
from rookery.monitor.log_lines import make_console_sink
from rookery.monitor.tensorboard import TensorBoard
from rookery.training.curriculum.setup_curriculum import UNCOUNTED
from rookery.training.storage.run_dir import RunDir


def open_sinks(run: RunDir, config: RunConfig) -> Sinks:
    """All sinks that the configuration names."""
    wish, sinks = config.monitor, Sinks()
    sinks.append(make_console_sink(config.steps if config.steps < UNCOUNTED else None, panel=wish.panel is not False))
    sinks.append(JsonLines(run.path))
    if wish.tensorboard:
        sinks.append(TensorBoard(run.tensorboard))
    for name in ("wandb", "mlflow"):
        if getattr(wish, name):
            from rookery.monitor.trackers import make_tracker

            sinks.append(make_tracker(name))
    return sinks
