"""Vector envs that are already built, as worlds of `make_vec`: as many envs, made in the same way.

They are not stepped by rookery and stay as they are: close them when you need them no more.
"""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from rookery.errors import WorldError

PARTS = ("num_envs", "single_observation_space", "single_action_space")
# What `gymnasium.make_vec` was told about the vector env, and is no option of one env.
OF_THE_CALL = ("num_envs", "vector_kwargs", "vectorization_mode", "wrappers")


def is_vector_env(world: Any) -> bool:
    """Whether it is a batch of envs; those of EnvPool and Isaac Lab are no VectorEnvs of Gymnasium."""
    if isinstance(world, VectorEnv):
        return True
    return isinstance(world, gym.Env) and all(hasattr(world.unwrapped, name) for name in PARTS)


def world_of(envs: Any) -> Any:
    """What makes one of its envs, or a list of what makes each; WorldError if it does not say."""
    inner = envs.unwrapped
    if hasattr(inner, "source"):  # an engine: parameters may have been set on it since
        raise WorldError(
            f"{type(inner).__name__} is what make_vec has made: give it the world of that, such as an id or a class"
        )
    if inner is not envs:
        raise WorldError(
            f"make_vec makes the envs in {type(envs).__name__} again, without this wrapper: give `envs.unwrapped`, and "
            "put the wrapper around what make_vec returns"
        )
    spec, functions = getattr(inner, "spec", None), list(getattr(inner, "env_fns", None) or ())
    if isinstance(spec, EnvSpec) and not spec.kwargs.get("wrappers"):  # made by gymnasium.make_vec
        return _spec_of_one(spec)
    if functions:
        return functions[0] if all(function is functions[0] for function in functions) else functions
    raise WorldError(
        f"{type(inner).__name__} does not say how its envs are made, so make_vec cannot make them: step it as it is, "
        "or give it to rookery.train, which does so too"
    )


def _spec_of_one(spec: EnvSpec) -> EnvSpec:
    one = copy.deepcopy(spec)
    one.kwargs = {key: value for key, value in spec.kwargs.items() if key not in OF_THE_CALL}
    one.max_episode_steps = one.kwargs.pop("max_episode_steps", spec.max_episode_steps)
    return one
