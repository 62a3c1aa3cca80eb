"""Vector envs of other libraries that return NumPy arrays, such as EnvPool's, as vector envs of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from rookery.engine.tensor_vector_env import check_interface, first_tensor, mapped
from rookery.errors import WorldError
from rookery.learners.observations import MASK_KEY

FINALS = ("final_obs", "final_observation")  # the second is the name of Gymnasium before 1.0


class ArrayVectorEnv(VectorEnv):
    """Gives the arrays of a vector env as tensors, and takes actions as tensors."""

    def __init__(self, envs: Any) -> None:
        self.envs, inner = envs, getattr(envs, "unwrapped", envs)
        check_interface(inner)
        self.title = type(inner).__name__
        self.num_envs = int(inner.num_envs)
        self.single_observation_space = inner.single_observation_space
        self.single_action_space = inner.single_action_space
        self.metadata = getattr(inner, "metadata", None) or {}
        self.ignores_seed = hasattr(inner, "all_env_ids")  # EnvPool's: it warns about a seed, and does nothing with it

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all envs, or those of `options["reset_mask"]`."""
        given: dict[str, Any] = {} if seed is None or self.ignores_seed else {"seed": seed}
        if options:
            given["options"] = {key: _array(value) for key, value in options.items()}
        observations, infos = self.envs.reset(**given)
        return self._tensors(observations), self._infos(observations, infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, *numbers, infos = self.envs.step(mapped(_array, actions))
        rewards, terminated, truncated = map(self._tensors, numbers)
        return self._tensors(observations), rewards, terminated, truncated, self._infos(observations, infos)

    def close_extras(self, **kwargs: Any) -> None:
        self.envs.close()

    def _infos(self, observations: Any, infos: dict[str, Any]) -> dict[str, Any]:
        """What a run reads of them, as tensors."""
        found = {}
        mask = observations.get(MASK_KEY) if isinstance(observations, dict) else None
        mask = infos.get(MASK_KEY) if mask is None else mask
        if mask is not None:
            found[MASK_KEY] = self._tensors(np.stack(list(mask)))
        for key in FINALS:
            if infos.get(key) is not None:
                found["final_obs"] = self._tensors(final_rows(infos[key], observations))
        return found

    def _tensors(self, values: Any) -> Any:
        """Arrays as tensors of their own memory: envs may overwrite theirs."""
        try:
            return mapped(lambda array: torch.from_numpy(np.array(array)), values)
        except TypeError as error:
            raise WorldError(
                f"{self.title} returned what is neither a tensor nor an array of numbers: {error}"
            ) from None


def with_tensors(envs: Any) -> Any:
    """The vector env itself if it returns tensors, found by a reset; otherwise around it one that does."""
    if isinstance(envs, ArrayVectorEnv):
        return envs
    check_interface(getattr(envs, "unwrapped", envs))
    return envs if first_tensor(envs.reset()[0]) is not None else ArrayVectorEnv(envs)


def final_rows(given: Any, observations: Any) -> Any:
    """Final observations of all rows; where no episode ended, the observations. Gymnasium has an array of objects, one
    for each env, of which the others are None.

    >>> given = np.array([None, np.array([7.0])], object)
    >>> final_rows(given, np.zeros((2, 1)))
    array([[0.],
           [7.]])
    """
    if not (isinstance(given, np.ndarray) and given.dtype == object):
        return given
    if isinstance(observations, dict):
        return {key: final_rows(_parts(given, key), part) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(final_rows(_parts(given, k), part) for k, part in enumerate(observations))
    rows = np.array(observations)
    for row, final in enumerate(given):
        if final is not None:
            rows[row] = final
    return rows


def _parts(given: np.ndarray, key: Any) -> np.ndarray:
    parts = np.empty(len(given), object)
    for row, final in enumerate(given):
        parts[row] = None if final is None else final[key]
    return parts


def _array(value: Any) -> Any:
    return value.cpu().numpy() if isinstance(value, Tensor) else value
