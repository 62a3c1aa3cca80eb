"""Which engine a run uses: backend, number of envs, workers and groups, measured where the config leaves them open."""

from __future__ import annotations

from contextlib import nullcontext

from rookery.config import RunConfig
from rookery.console import meanwhile, say
from rookery.engine.autotune import Choice
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import plan
from rookery.errors import OptionError
from rookery.learners.registry import specs
from rookery.training.resolve.world_choice import World, explain_option_errors

MAX_PYTHON_ENVS = 100_000  # of a world that is not compiled: each env is a Python object
MAX_ADAPTIVE_ENVS = 256


def choose_engine(config: RunConfig, world: World) -> Choice:
    """What the engine will be; nothing stays running."""
    if config.num_envs == "adaptive":
        if world.kernel:
            raise OptionError(
                f"num_envs='adaptive' is for worlds in processes; {world.name} is compiled: give a number"
            )
        return Choice("process", usable_cores(), usable_cores(), "")
    num_envs = config.num_envs if isinstance(config.num_envs, int) else None
    if num_envs is not None and num_envs > MAX_PYTHON_ENVS and not world.kernel:
        raise OptionError(
            f"`num_envs` = {num_envs:,}: of a world that is not compiled there are {MAX_PYTHON_ENVS:,} at most"
        )
    backend = "process" if config.step_timeout is not None and not world.kernel else config.backend
    workers = config.workers
    if backend == "process" and num_envs is not None and workers is None:
        workers = min(usable_cores(), num_envs)
    waiting = nullcontext() if world.kernel else meanwhile(f"measuring a step of {world.name}")
    with waiting, explain_option_errors(world):
        return plan(world.factory, num_envs, backend, workers, config.start_method)


def with_engine(config: RunConfig, choice: Choice) -> RunConfig:
    """The config with the choice written down, so that a resumed run need not measure again."""
    changes = {"backend": choice.backend, "workers": choice.workers, "groups": _groups(config, choice)}
    if config.num_envs != "adaptive":
        changes["num_envs"] = choice.num_envs
    return config.model_copy(update=changes)


def _groups(config: RunConfig, choice: Choice) -> int:
    """With 2 groups, the policy acts for one half of the envs while the other half steps in its workers."""
    if config.has_curriculum:
        if config.groups == 2:
            say("groups=1 instead of 2: with phases, opponents or a reward scale, all envs are stepped at once")
        return 1
    if config.num_envs == "adaptive":
        return 1
    overlap = choice.backend == "process" and specs()[config.learner].on_policy and choice.num_envs > 1
    return config.groups or (2 if overlap else 1)
