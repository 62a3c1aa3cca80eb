"""Runs that were never interrupted, stopped at a step: what a moment that is played again must equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.config import build_config
from rookery.training.rewind.gradients import made_so_far
from rookery.training.run.open_run import open_new_run
from rookery.training.run.stop_request import StopRequest

BOOKKEEPING = ("seconds", "looked_at")  # of the part "loop": the clock, and when the loop last did what was due


def state_at(config: dict[str, Any], step: int, folder: Path) -> dict[str, Any]:
    """All that a checkpoint of a new run would hold after the last round with at most so many steps."""
    with open_new_run(build_config({**config, "runs_dir": str(folder)}), StopRequest()) as opened:
        loop = opened.loop
        loop.start(opened.observations, opened.infos)
        while (rounds := (step - loop.steps) // loop.num_envs) > 0:
            loop.collect(rounds)
            loop.learn()
            if not loop.in_rollout:
                loop.evaluate_save_and_log()
        if loop.collector.is_asynchronous:
            loop.take_episodes()
        return comparable(loop.tree())


def comparable(tree: dict[str, Any]) -> dict[str, Any]:
    """Without clocks, without steps of the rollout that are not made yet, and without the generators of spaces, which
    no seed of a run reaches."""
    loop = {name: value for name, value in tree["loop"].items() if name not in BOOKKEEPING}
    learner = dict(tree["learner"])
    if learner.get("rollout"):
        learner["rollout"] = {"noise": learner["rollout"]["arrays"]["noise"], **made_so_far(learner["rollout"])}
    return {**tree, "loop": loop, "learner": learner, "envs": _seeded(tree["envs"])}


def _seeded(branch: Any) -> Any:
    if not isinstance(branch, dict):
        return branch
    left_out = ("seconds", "action_space", "observation_space")
    return {name: _seeded(value) for name, value in branch.items() if name not in left_out}
