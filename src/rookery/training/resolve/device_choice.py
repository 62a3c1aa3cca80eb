"""Whether a run's envs are stepped on the GPU of its learner."""

from __future__ import annotations

from importlib.util import find_spec

from rookery.config import RunConfig
from rookery.console import say
from rookery.training.resolve.curriculum_config import all_opponents
from rookery.training.resolve.world_choice import World

LEARNERS = ("ppo",)  # that take tensors from envs


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
    in_python = [opponent.who for opponent in all_opponents(config) if ".py:" in opponent.who]
    if in_python:
        return f"the opponent {in_python[0]!r} acts there"
    if find_spec("numba_cuda") is None and find_spec("numba.cuda") is None:
        return "the GPU's needs numba-cuda: pip install 'rookery[cuda]'"
    return ""
