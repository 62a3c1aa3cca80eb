"""Worlds that are vector envs of other libraries: given as an object, or as what makes one. What returns arrays is made
to return tensors."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from rookery.config import RunConfig
from rookery.engine.settings import plain_int
from rookery.errors import OptionError
from rookery.training.resolve.world_choice import SESSION_NOTE, World, choose_learner

ALONE = ("num_envs", "single_observation_space", "single_action_space")


class TensorWorld:
    """A vector env of tensors: one that the user has made, or what makes it. It is made once, when it is needed."""

    def __init__(self, envs: Any = None, make: Callable[..., Any] | None = None) -> None:
        self.envs, self.make = envs, make
        self.engine: Any = None  # what steps them in a run

    def open(self, config: RunConfig) -> Any:
        """The vector env; a new one has as many envs as the config says, if what makes it takes that."""
        from rookery.training.resolve.array_envs import with_tensors  # imports torch

        self.envs = self.build(config) if self.envs is None else with_tensors(self.envs)
        return self.envs

    def build(self, config: RunConfig) -> Any:
        """Another vector env of the same kind."""
        from rookery.training.resolve.array_envs import with_tensors

        assert self.make is not None
        count = {"num_envs": config.num_envs} if isinstance(config.num_envs, int) and self._takes_count else {}
        return with_tensors(self.make(**{**count, **config.world_options}))

    @property
    def _takes_count(self) -> bool:
        try:
            return "num_envs" in inspect.signature(self.make).parameters  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False


def tensor_world_of(world: Any) -> TensorWorld | None:
    """The vector env that an object is or makes, to be stepped as it is; None if it is something else, or says how its
    envs are made."""
    if isinstance(world, VectorEnv):
        return None if _is_made_again(world) else TensorWorld(world)
    if isinstance(world, gym.Env):  # such as those of Isaac Lab, which are batches without being VectorEnvs
        return TensorWorld(world) if all(hasattr(world.unwrapped, name) for name in ALONE) else None
    return TensorWorld(make=world) if _makes_vector_env(world) else None


def _is_made_again(envs: VectorEnv) -> bool:
    """Whether a run makes envs of its own instead, one by one, of those that say how they are made."""
    inner: Any = envs.unwrapped
    spec = getattr(inner, "spec", None)
    if getattr(inner, "source", None) is not None or getattr(inner, "env_fns", None):
        return True
    if not isinstance(spec, EnvSpec):  # EnvPool has specs of its own
        return False
    from rookery.engine.tensor_vector_env import first_tensor  # imports torch

    return spec.vector_entry_point is None or first_tensor(envs.reset()[0]) is None


def _makes_vector_env(world: Any) -> bool:
    """Whether it is a class of vector envs, or a function that is annotated to return one."""
    inner = world.func if isinstance(world, functools.partial) else world
    if not inspect.isclass(inner):
        try:
            inner = typing.get_type_hints(inner).get("return")
        except (TypeError, NameError, AttributeError):
            return False
    return inspect.isclass(inner) and issubclass(inner, VectorEnv)


def tensor_run(config: RunConfig, source: TensorWorld) -> tuple[RunConfig, World, tuple[gym.Space, gym.Space]]:
    """What a run on such envs is: its config with all choices made, its world, and the spaces of one env."""
    from rookery.engine.tensor_vector_env import first_tensor  # imports torch

    _refuse_options(config)
    envs = source.open(config)
    inner = getattr(envs, "unwrapped", envs)
    tensor = first_tensor(envs.reset()[0])
    assert tensor is not None  # or they would return arrays, and be an `ArrayVectorEnv`
    num_envs = plain_int(inner.num_envs)
    if isinstance(config.num_envs, int) and config.num_envs != num_envs:
        raise OptionError(f"`num_envs` = {config.num_envs}, but the vector env has {num_envs}: omit it")
    spaces = inner.single_observation_space, inner.single_action_space
    learner = choose_learner(spaces[1]) if config.learner == "auto" else config.learner
    changes: dict[str, Any] = {"device": str(tensor.device) if config.device == "auto" else config.device}
    changes |= {"backend": "tensor", "num_envs": num_envs, "workers": 1, "groups": 1, "learner": learner}
    name = config.world.rpartition(":")[2]
    return config.model_copy(update=changes), World(name, source, kernel=False, note=SESSION_NOTE), spaces


def _refuse_options(config: RunConfig) -> None:
    """What a vector env of another library cannot do."""
    if config.backend not in ("auto", "tensor"):
        raise OptionError(f"`backend` = {config.backend!r}: a vector env of tensors steps its envs itself; omit it")
    if config.has_curriculum:
        raise OptionError(
            "phases, opponents and reward scales need envs that rookery makes, not a vector env of tensors"
        )
    if config.wrappers:
        raise OptionError("`wrappers` are for single envs: wrap the vector env of tensors itself")
    if config.num_envs == "adaptive" or config.groups == 2:
        raise OptionError("a vector env of tensors has a fixed number of envs, which step all at once: omit `groups` "
                          "and give no adaptive `num_envs`")  # fmt: skip
