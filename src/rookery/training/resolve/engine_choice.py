"""Which engine a run uses: backend, number of envs, workers and groups, measured where the config leaves them open."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rookery.config import RunConfig
from rookery.console import meanwhile, say
from rookery.engine.autotune import POLICY_ROUND, Choice
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import plan
from rookery.engine.probe import Probe, probe
from rookery.errors import OptionError, StepTimeout
from rookery.learners.registry import specs
from rookery.training.resolve.curriculum_config import NO_STEP_LIMIT
from rookery.training.resolve.option_errors import explain_option_errors
from rookery.training.resolve.useful_envs import recall_useful_envs, remember_useful_envs
from rookery.training.resolve.world_choice import World

MAX_PYTHON_ENVS = 100_000  # of a world that is not compiled: each env is a Python object
MAX_ADAPTIVE_ENVS = 256
# A run of PPO needs some hundred updates, and each of them some hundred steps: FrozenLake with 38 envs x 128 steps made
# 21 updates in 100,000 steps, and learned nothing.
MIN_UPDATES = 100
MIN_ROWS = 512  # of an update, in a short run
USUAL_ROLLOUT, SHORTEST_ROLLOUT = 64, 16  # steps of each env: the shortest only where there are more cores


def choose_engine(config: RunConfig, world: World, measured: Probe | None = None) -> Choice:
    """What the engine will be; nothing stays running. What was `measured` is not measured again."""
    if config.backend == "tensor":
        raise OptionError(
            f"`backend` = 'tensor' is for vector envs that return tensors, as objects; omit it for {world.name}"
        )
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
    at_most = most_envs(config)
    remembered = recall_useful_envs(world) if num_envs is None and not world.kernel else None
    if remembered is not None:
        num_envs = max(min(remembered, at_most or remembered), config.workers or 1)
    backend = "process" if config.step_timeout is not None and not world.kernel else config.backend
    workers = config.workers
    if backend == "process" and num_envs is not None and workers is None:
        workers = min(usable_cores(), num_envs)
    with _waiting(world), explain_option_errors(world):
        choice = plan(
            world.factory, num_envs, backend, workers, config.start_method,
            measured=measured, at_most=at_most, policy_seconds=POLICY_ROUND,
        )  # fmt: skip
    if choice.useful_envs is not None and remembered is None and config.num_envs == "auto":
        remember_useful_envs(world, choice.useful_envs)
    return choice


def measure(config: RunConfig, world: World) -> Probe:
    """The spaces of a world's envs and the cost of a step, from a worker process. An env that refuses random actions is
    not measured: its step has a cost of 0."""
    with _waiting(world), explain_option_errors(world):
        try:
            return probe(world.factory, config.start_method, step_timeout=config.step_timeout)
        except Exception as error:
            if not isinstance(error, StepTimeout) and getattr(error, "env_phase", "") != "step":
                raise
            return probe(world.factory, config.start_method, seconds=0)


def _waiting(world: World) -> AbstractContextManager[Any]:
    return nullcontext() if world.kernel else meanwhile(f"measuring a step of {world.name}")


def most_envs(config: RunConfig) -> int | None:
    """With how many envs a run still makes MIN_UPDATES updates; None for learners that update after every few steps.

    Each core gets an env even so, with shorter rollouts."""
    if config.learner not in specs() or not specs()[config.learner].on_policy:
        return None
    options = getattr(config, config.learner)
    length = getattr(options, "rollout_length", None)  # an installed learner may have none
    if length is None:
        return None
    if "rollout_length" not in options.model_fields_set:
        length = min(length, max(SHORTEST_ROLLOUT, min(USUAL_ROLLOUT, _rows(config) // usable_cores())))
    return max(1, _power_of_two(_rows(config) // length))


def with_engine(config: RunConfig, choice: Choice) -> RunConfig:
    """The config with the choice written down, so that a resumed run need not measure again."""
    changes = {"backend": choice.backend, "workers": choice.workers, "groups": _groups(config, choice)}
    if config.num_envs != "adaptive":
        changes["num_envs"] = choice.num_envs
    if config.num_envs == "auto":
        changes |= shorter_rollout(config, choice.num_envs)
    return config.model_copy(update=changes)


def shorter_rollout(config: RunConfig, num_envs: int) -> dict[str, object]:
    """Shorter rollouts, if the number of envs was chosen and the length of a rollout is open as well."""
    options = getattr(config, config.learner)
    is_open = hasattr(options, "rollout_length") and "rollout_length" not in options.model_fields_set
    if not specs()[config.learner].on_policy or not is_open:
        return {}
    length = max(SHORTEST_ROLLOUT, _power_of_two(_rows(config) // num_envs))
    if length >= options.rollout_length:
        return {}
    return {config.learner: options.model_copy(update={"rollout_length": length})}


def _rows(config: RunConfig) -> int:
    """How many steps an update should be made from at most: with a twentieth more, 1,024 in a run of 100,000 steps."""
    steps = config.steps if config.steps < NO_STEP_LIMIT else RunConfig.model_fields["steps"].default
    return max(MIN_ROWS, int(1.05 * steps) // MIN_UPDATES)


def _power_of_two(number: int) -> int:
    """The largest one that is not above the number."""
    return 1 << max(0, number.bit_length() - 1)


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
