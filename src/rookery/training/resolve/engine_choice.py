"""Which engine a run uses: backend, number of envs, workers and groups, measured where the config leaves them open."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium

from rookery.config import RunConfig
from rookery.console import meanwhile, say
from rookery.engine.autotune import POLICY_ROUND, Choice, probe
from rookery.engine.autotune import measure as measure_env
from rookery.engine.cost_memory import Measurements, Probe, key_of, recall
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import plan
from rookery.errors import OptionError, StepTimeout
from rookery.learners.registry import specs
from rookery.training.resolve.option_errors import explain_option_errors
from rookery.training.resolve.recipes import recipe_for
from rookery.training.resolve.seats import NO_STEP_LIMIT, all_opponents
from rookery.training.resolve.world_choice import World
from rookery.worlds import known_recipes
from rookery.worlds.world_spec import Recipe

MAX_PYTHON_ENVS = 100_000  # of a world that is not compiled: each env is a Python object
MAX_ADAPTIVE_ENVS = 256
# A run of PPO needs some hundred updates, and each of them some hundred steps: FrozenLake with 38 envs x 128 steps made
# 21 updates in 100,000 steps, and learned nothing.
MIN_UPDATES = 100
MIN_ROWS = 512  # of an update, in a short run
USUAL_ROLLOUT, SHORTEST_ROLLOUT = 64, 16  # steps of each env: the shortest only where there are more cores


def choose_engine(config: RunConfig, world: World, measured: Probe | None = None) -> Choice:
    """What the engine will be; nothing stays running. Values in `measured` are not measured again."""
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
            known = recall(world.factory)
            if known is None:
                return measure_env(world.factory, config.start_method, config.step_timeout)
            return Probe(**vars(known), description=probe(world.factory, config.start_method, seconds=0).description)
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
    options = config.learner_options
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
    options = config.learner_options
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


USEFUL_ENVS = Measurements("useful_envs.json")


def recall_useful_envs(world: World, *facts: object) -> int | None:
    """The number that was measured before; None if none was. `facts` are what it depends on beside world and cores."""
    count = USEFUL_ENVS.recall(_key(world, facts))
    return count if type(count) is int and count >= 1 else None


def remember_useful_envs(world: World, count: int, *facts: object) -> None:
    """Keep it for the next run."""
    USEFUL_ENVS.remember(_key(world, facts), count)


def _key(world: World, more: tuple[object, ...] = ()) -> str | None:
    """What the measurement depends on; None for a class or function, which has no lasting name."""
    if not isinstance(world.source, str):
        return None
    path, colon, _ = world.source.rpartition(":")
    try:
        content = Path(path).read_bytes() if colon and path.endswith(".py") else b""
    except OSError:
        return None
    options = sorted(world.env_kwargs.items())
    facts = (world.source, options, world.wrappers, gymnasium.__version__, usable_cores(), *more)  # on a CPU no more
    return key_of(*facts, content=content)


LEARNERS = ("ppo", "pqn", "sac", "td3", "dqn", "xqc")  # that take tensors from envs


def with_envs_on_device(config: RunConfig, world: World) -> RunConfig:
    """A learner on an NVIDIA GPU has its kernel world there too, unless the config names another backend."""
    if config.backend != "auto" or not config.device.startswith("cuda") or not world.kernel:
        return config
    reason = why_not_on_device(config, world)
    if reason:
        say(f"the envs are stepped on the CPU: {reason}")
        return config
    return config.model_copy(update={"backend": "cuda"})


def why_not_on_device(config: RunConfig, world: World) -> str:
    """What keeps the envs of this run on the CPU; "" if nothing does."""
    if world.kernel_world is not None and world.kernel_world.calls_c:
        return f"{world.name} calls a C library; --set backend=cuda takes a GPU's version of it, if there is one"
    if config.learner not in LEARNERS:
        return f"{config.learner} takes no tensors from envs"
    if getattr(config.learner_options, "hindsight", 0):
        return f"`{config.learner}.hindsight` calls the world's `compute_reward` there"
    in_python = [opponent.who for opponent in all_opponents(config) if ".py:" in opponent.who]
    if in_python:
        return f"the opponent {in_python[0]!r} acts there"
    if find_spec("numba_cuda") is None and find_spec("numba.cuda") is None:
        return "the GPU's needs numba-cuda: pip install 'rookery[cuda]'"
    return ""


MANY_ENVS = 256  # with fewer, PPO's small nets are about as fast on a CPU
MOST_ENVS = 4096  # that are chosen for a given number of steps


def with_gpu(config: RunConfig, world: World, may_take: bool) -> RunConfig:
    """With the envs on the learner's GPU; and with both on the machine's GPU if the run may take it, the config leaves
    the device open, and it pays."""
    is_open = config.device == "auto" and config.backend == "auto" and world.kernel
    if may_take and is_open and has_nvidia_gpu() and pays(config, world):
        config = config.model_copy(update={"device": "cuda"})
    return with_envs_on_device(config, world)


def pays(config: RunConfig, world: World) -> bool:
    """Whether a run of a kernel world is faster on a GPU, by what is known before it starts: an off-policy learner's
    many updates are, and so are PPO's with many envs."""
    if why_not_on_device(config, world):
        return False
    if not specs()[config.learner].on_policy:
        return True
    envs = config.num_envs if _has_num_envs(config) else gpu_recipe(config, world).get("num_envs", 0)
    return isinstance(envs, int) and envs >= MANY_ENVS


def engine_recipe(config: RunConfig, world: World) -> Recipe:
    """What replaces parts of the world's recipe on this engine; nothing if the user gave the number of envs."""
    if config.backend == "cuda":
        return gpu_recipe(config, world)
    if _has_num_envs(config) or not world.kernel:
        return {}
    return deepcopy(dict(known_recipes.COMPILED.get(world.name, {}).get(config.learner, {})))


def gpu_recipe(config: RunConfig, world: World) -> Recipe:
    """What replaces parts of the world's recipe on a GPU. For on-policy learners nothing if the user gave the number of
    envs; the updates of others follow rounds of many envs, whatever their number and the run's length are."""
    has_length = "steps" in config.model_fields_set or config.episodes is not None or bool(config.phases)
    name = world.name.removeprefix("rookery/")
    own = known_recipes.ON_GPU.get(name, {}).get(config.learner)
    if own is not None and not specs()[config.learner].on_policy:
        few = isinstance(config.num_envs, int) and _has_num_envs(config) and config.num_envs < MANY_ENVS
        return {} if few else deepcopy(dict(own))
    if _has_num_envs(config):
        return {}
    if own is not None:
        return {} if has_length else deepcopy(dict(own))
    if config.learner != "ppo" or recipe_for(world.name, config.learner, kernel=False):
        return {}  # made for the steps and envs of a CPU
    if not has_length:
        return deepcopy(known_recipes.USUAL_ON_GPU)
    rollout = known_recipes.USUAL_ON_GPU["ppo"]
    short = config.model_copy(update={"ppo": config.ppo.model_copy(update=rollout)})  # type: ignore[attr-defined]
    return {"num_envs": min(MOST_ENVS, most_envs(short) or MANY_ENVS), "ppo": dict(rollout)}


def has_own_gpu_recipe(world: World, learner: str) -> bool:
    """Whether the number of envs of this world on a GPU is known."""
    return learner in known_recipes.ON_GPU.get(world.name.removeprefix("rookery/"), {})


def has_nvidia_gpu() -> bool:
    """Whether torch finds a GPU that numba-cuda can compile for."""
    import torch

    return torch.version.cuda is not None and torch.cuda.is_available()


def _has_num_envs(config: RunConfig) -> bool:
    return "num_envs" in config.model_fields_set and config.num_envs != "auto"
