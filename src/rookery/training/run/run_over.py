"""Runs that are over. To resume one changes nothing, and least of all its figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.config import resumed_config
from rookery.config.layers import MISSING, look_up
from rookery.console import say, silent
from rookery.errors import CheckpointError, RunError
from rookery.monitor.run_summary import ended_early
from rookery.training.run.result import Result
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.load_agent import load_agent
from rookery.training.storage.run_dir import RunDir

COUNTED = ("steps", "seconds", "num_envs", "last_evaluation", "best_evaluation")  # of a checkpoint's part "loop"


def result_if_over(folder: RunDir, changes: Mapping[str, Any], trust: bool) -> Result | None:
    """The result of a run that would make no further step with these changes of its config, after saying why; None if
    there is something to do, be it the summary of a run that was killed at its end."""
    folder.refuse_links()
    saved, summary = _saved_counts(folder), _summary(folder)
    if saved is None:
        return None
    is_last = summary.get("steps") == saved["steps"]
    if is_last:  # of an evaluation that was made after the checkpoint
        scores = {"last_evaluation": summary.get("eval/return"), "best_evaluation": summary.get("eval/best_return")}
        saved |= {name: value for name, value in scores.items() if isinstance(value, float)}
    recorded = folder.read_config()
    why = _why_over(Goals.of(changes, recorded), saved, summary)
    ended = is_last and not ended_early(summary)
    if not why or (not ended and _why_over(Goals.of(recorded), saved, summary)):
        return None
    resumed_config(recorded, changes)  # refuses keys that may not change
    say(f"{folder.name} {why}")
    return _result(folder, saved, summary, trust)


@dataclass(frozen=True)
class Goals:
    """What ends a run; NaN where there is none. Configs are read as they are: they are validated once, if there is
    something to do."""

    steps: float
    episodes: float
    evaluation: float

    @classmethod
    def of(cls, *configs: Mapping[str, Any]) -> Goals:
        """Those of the first of these configs that says anything about them."""
        return cls(*(_goal(key, configs) for key in ("steps", "episodes", "evaluation.stop_at")))


def _goal(key: str, configs: Iterable[Mapping[str, Any]]) -> float:
    found = (look_up(config, key) for config in configs)
    value = next((value for value in found if value is not MISSING), None)
    return float(value) if isinstance(value, (int, float)) else math.nan


def _saved_counts(folder: RunDir) -> dict[str, Any] | None:
    """What the latest checkpoint has counted; None if there is none that is as it should be: whoever opens the run
    says what is wrong."""
    try:
        with silent():
            loop = Checkpoints(folder.checkpoints).load_latest(("loop",))[1]["loop"]
        episodes = loop["episodes"]
        saved = {name: loop[name] for name in COUNTED} | {"episodes": episodes["count"], "returns": episodes["returns"]}
    except (CheckpointError, KeyError, TypeError):
        return None
    counts = saved["steps"], saved["episodes"]
    numbers = (value for value in (saved["last_evaluation"], *counts) if value is not None)
    return saved if None not in counts and all(isinstance(value, (int, float)) for value in numbers) else None


def _summary(folder: RunDir) -> dict[str, Any]:
    """The summary; {} if there is none, or one that cannot be read."""
    try:
        return folder.read_summary() or {}
    except RunError:
        return {}


def _why_over(goals: Goals, saved: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Why the run is over, and how it can go on; "" if it is not over."""
    steps, episodes, last = saved["steps"], saved["episodes"], saved["last_evaluation"]
    made, further = [], []
    if steps >= goals.steps:
        made.append(f"has made {steps:,} of {goals.steps:,.0f} steps")
        further.append(f"more steps, such as --steps {2 * steps}")
    if episodes >= goals.episodes:
        made.append(f"has made {episodes:,} of {goals.episodes:,.0f} episodes")
        further.append(f"more episodes, such as --num-episodes {2 * episodes}")
    if last is not None and last >= goals.evaluation:
        made.append(f"has reached `evaluation.stop_at` = {goals.evaluation:g} with {last:.4g}")
        further.append("a higher goal, or none by --set evaluation.stop_at=none")
    if made:
        return f"{' and '.join(made)}: there is nothing to do. To train longer, give {', and '.join(further)}"
    return "has finished all of its phases: there is nothing to do" if summary.get("phases_done") else ""


def _result(folder: RunDir, saved: Mapping[str, Any], summary: Mapping[str, Any], trust: bool) -> Result:
    return Result(
        run_name=folder.name,
        path=folder.path,
        agent=load_agent(folder, trust=trust),
        total_steps=saved["steps"],
        episodes=saved["episodes"],
        mean_reward=float(np.mean(saved["returns"])) if len(saved["returns"]) else float("nan"),
        evaluation=saved["last_evaluation"],
        best_evaluation=saved["best_evaluation"],
        seconds=saved["seconds"],
        steps_per_second=summary.get("steps_per_second") or 0.0,
        num_envs=saved["num_envs"],
        reason=str(summary.get("reason", "finished")),
    )
