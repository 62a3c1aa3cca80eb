"""The checkpoint that a run is resumed from."""

from __future__ import annotations

from functools import partial
from typing import Any

from rookery.config import RunConfig
from rookery.console import say
from rookery.errors import CheckpointError, RookeryError
from rookery.training.resolve.curriculum_config import NO_STEP_LIMIT
from rookery.training.resolve.engine_choice import MAX_ADAPTIVE_ENVS
from rookery.training.run.loop import Loop
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.checkpoint_files import MALFORMED, short_text
from rookery.training.storage.load_agent import check_agent
from rookery.training.storage.run_dir import RunDir


def load_latest(folder: RunDir, config: RunConfig) -> Any:
    """The latest valid checkpoint, with later metrics removed; None to begin anew."""
    checkpoints = Checkpoints(folder.checkpoints, config.checkpoints.keep)
    if checkpoints.latest() is None:
        say(f"{folder.name} has no checkpoint yet; starting from the beginning")
        folder.truncate_after(-1)
        return None
    step, saved = checkpoints.load_latest(check=partial(_check_saved, config))
    folder.truncate_after(step)
    return saved


def _check_saved(config: RunConfig, saved: Any) -> None:
    """Refuse a checkpoint that is not of this config, before nets are made for it."""
    agent, loop = saved.get("agent"), saved.get("loop")
    check_agent(agent)
    if config.learner != agent["learner"] or getattr(config, config.learner).hidden != agent["options"]["hidden"]:
        raise CheckpointError(f"a checkpoint's agent, of {agent['learner']}, has other nets than the run's config")
    steps = loop.get("steps") if isinstance(loop, dict) else None
    if type(steps) is not int or not 0 <= steps < NO_STEP_LIMIT:
        raise CheckpointError(f"a checkpoint has {steps!r:.40} steps, which is not possible")
    num_envs = loop.get("num_envs")
    if config.num_envs == "adaptive" and (type(num_envs) is not int or not 1 <= num_envs <= MAX_ADAPTIVE_ENVS):
        raise CheckpointError(
            f"a checkpoint has {num_envs!r:.40} envs, and adaptive runs have up to {MAX_ADAPTIVE_ENVS}"
        )


def load_into(loop: Loop, saved: Any) -> tuple[Any, dict[str, Any]]:
    """Continue from a checkpoint. One that is complete but was not written by rookery may fail in any way."""
    try:
        return loop.load(saved)
    except RookeryError:
        raise
    except MALFORMED as error:
        if getattr(error, "__notes__", None):  # of the user's env
            raise
        raise CheckpointError(f"the run cannot continue from its checkpoint: {short_text(error)}") from error
