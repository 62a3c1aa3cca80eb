"""What a run takes where there is a GPU: whether it runs on it without being asked, and with how many envs."""

from __future__ import annotations

from copy import deepcopy

from rookery.config import RunConfig
from rookery.learners.registry import specs
from rookery.training.resolve.device_choice import why_not_on_device, with_envs_on_device
from rookery.training.resolve.engine_choice import most_envs
from rookery.training.resolve.recipes import recipe_for
from rookery.training.resolve.world_choice import World
from rookery.worlds import known_recipes
from rookery.worlds.world_spec import Recipe

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


def gpu_recipe(config: RunConfig, world: World) -> Recipe:
    """What replaces parts of the world's recipe on a GPU; nothing if the user gave the number of envs."""
    if _has_num_envs(config) or config.learner != "ppo":
        return {}
    has_length = "steps" in config.model_fields_set or config.episodes is not None or bool(config.phases)
    name = world.name.removeprefix("rookery/")
    own = known_recipes.ON_GPU.get(name, {}).get(config.learner)
    if own is not None:
        return {} if has_length else deepcopy(dict(own))
    if recipe_for(world.name, config.learner, kernel=False):
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
