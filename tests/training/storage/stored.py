"""Run folders as training leaves them, written without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from monitor import telling
from rookery.monitor.jsonl import JsonLines
from rookery.training.storage.run_dir import RunDir


def stored_run(
    base: Path, name: str, returns: tuple[float, ...] = (), /, interval: float = 5.0, **config: Any
) -> RunDir:
    """A finished run that was evaluated every 1,000 steps with these returns; half of each interval is
    `interval`."""
    run = RunDir.create(base, name)
    full = {"world": "CartPole-v1", "learner": "ppo", "seed": 0, "ppo": {"clip": 0.2, "threads": 1}, **config}
    run.write_config(full)
    last = 1000 * len(returns)
    sink = JsonLines(run.path)
    sink.write(telling.start(run=run.name, world=full["world"], learner=full["learner"]))
    for number, value in enumerate(returns, 1):
        sink.write(telling.progress(1000 * number, 1000.0 + 10 * number, episodes=5 * number))
        found = {"eval/return": value, "eval/return_low": value - interval, "eval/return_high": value + interval}
        found["eval/best"] = value == max(returns[:number])
        sink.write(telling.evaluation(1000 * number, 1001.0 + 10 * number, **found))
    end = telling.END | {"run": run.name, "steps": last, "eval/return": None, "eval/best_return": None}
    sink.write(telling.Event("end", last, end, time=1005.0 + 10 * len(returns)))
    sink.close()
    run.summary.write_text(json.dumps(end))
    return run
