"""Runs as training leaves them, made without training: to be evaluated, watched and exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces

from rookery.config import build_config
from rookery.gate import allow_given
from rookery.learners.learner import module_state
from rookery.learners.plain_spaces import to_tree
from rookery.learners.registry import make_policy
from rookery.training.resolve.resolved_run import resolve_run
from rookery.training.resolve.world_choice import find
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import remember

STEP = 1_000


def make_run(
    base: Path,
    world: str | None = None,
    learner: str = "ppo",
    observation_space: spaces.Space | None = None,
    action_space: spaces.Space | None = None,
    masks: Any = None,
    world_options: dict[str, Any] | None = None,
    **options: Any,
) -> RunDir:
    """A run in `base` with a checkpoint of a policy with random weights and statistics. With spaces of its own it is a
    run of another world than it says, which only matters to who looks at the world."""
    world = world or ("Pendulum-v1" if learner in ("sac", "xqc") else "CartPole-v1")
    wish: dict[str, Any] = {learner: options} if options else {}
    allow_given(world)
    if not find(world, options=world_options).kernel:
        wish["num_envs"] = 1  # so that nothing is measured
    resolved = resolve_run(build_config(world, learner=learner, world_options=world_options or {}, **wish))
    config = resolved.config
    seen, done = resolved.world.spaces if observation_space is None else (observation_space, action_space)
    run = RunDir.create(base, "finished")
    run.write_config(config.model_dump(mode="json"))
    remember(run, config)  # as `train` does
    torch.manual_seed(1)
    policy = make_policy(learner, seen, done, getattr(config, learner))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        norm = policy.encoder.norm
        if norm is not None:
            norm.update(2.0 + 3.0 * torch.randn(50, len(norm.mean)))
    agent = {
        "learner": learner,
        "options": getattr(config, learner).model_dump(mode="json"),
        "policy": module_state(policy),
        "observation_space": to_tree(seen),
        "action_space": to_tree(done),
    }
    envs = {} if masks is None else {"masks": masks}
    Checkpoints(run.checkpoints).save(STEP, {"agent": agent, "envs": envs})
    return run
