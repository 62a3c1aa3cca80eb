"""rookery's engine under Stable-Baselines3: `as_vec_env(envs)` is a `VecEnv` like any other.

>>> import rookery, rookery.sb3
>>> envs = rookery.make_vec("CartPole-v1", num_envs=4, backend="serial", autoreset_mode="same_step")
>>> vec_env = rookery.sb3.as_vec_env(envs)
>>> vec_env.reset().shape
(4, 4)
>>> from stable_baselines3 import PPO
>>> model = PPO("MlpPolicy", vec_env, n_steps=16, batch_size=64, n_epochs=1).learn(64)
>>> vec_env.close()
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rookery.engine.engine import Engine
from rookery.engine.groups import Group
from rookery.engine.seeding import env_seeds
from rookery.errors import MissingExtra, OptionError

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise MissingExtra(f"rookery.sb3 needs Stable-Baselines3 ({error}): pip install 'rookery[sb3]'") from None

__all__ = ["EngineVecEnv", "as_vec_env"]


def as_vec_env(envs: Engine) -> EngineVecEnv:
    """A Stable-Baselines3 `VecEnv` over an engine made with `autoreset_mode="same_step"`.

    The engine belongs to the `VecEnv` from then on: step and close it there.
    """
    if not isinstance(envs, Engine):
        kind = f"{type(envs).__module__}.{type(envs).__qualname__}"
        raise OptionError(f"as_vec_env needs the result of rookery.make_vec, without wrappers, got {kind}")
    if envs.settings.autoreset_mode is not AutoresetMode.SAME_STEP:
        mode = envs.settings.autoreset_mode.name.lower()
        raise OptionError(
            "Stable-Baselines3 expects an env to be reset in the step that ends its episode: "
            f'rookery.make_vec(..., autoreset_mode="same_step"), not "{mode}"'
        )
    if not envs.settings.copy:
        raise OptionError("Stable-Baselines3 keeps observations beyond the next step: make_vec(..., copy=True)")
    if len(envs.groups) > 1:
        raise OptionError(f"Stable-Baselines3 steps all envs at once: make_vec(..., groups=1), not {len(envs.groups)}")
    return EngineVecEnv(envs)


class EngineVecEnv(VecEnv):
    """What `as_vec_env` returns; `.engine` is the engine behind it."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.spec = engine, engine.spec
        self._next_seed: int | None = None
        self._options_differ = self._stepping = False
        super().__init__(engine.num_envs, engine.single_observation_space, engine.single_action_space)
        self.metadata = {key: value for key, value in engine.metadata.items() if key != "autoreset_mode"}

    # --- episodes -----------------------------------------------------------------------------------------------

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seed the next `reset`; returns each env's seed: children of `seed`, as everywhere in rookery, not
        `seed + i`. Without an argument the seed is sampled from `numpy.random`."""
        self._next_seed = int(np.random.randint(2**31)) if seed is None else int(seed)
        return env_seeds(self._next_seed, self.num_envs)

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Options for the next `reset`: one dict for all envs, or a list with one for each."""
        if isinstance(options, list) and len(options) != self.num_envs:
            raise OptionError(f"set_options needs one dict for each of {self.num_envs} envs, got {len(options)}")
        super().set_options(options)
        self._options_differ = isinstance(options, list)

    def reset(self) -> Any:
        """Reset all envs; their infos are in `reset_infos`."""
        if self._stepping:  # SB3: a step under way is abandoned
            self.step_wait()
        if self._options_differ:
            observations = self._reset_one_by_one()
        else:
            observations, infos = self.engine.reset(seed=self._next_seed, options=self._options[0] or None)
            self.reset_infos = _info_of_each(infos, self.num_envs)
        self._next_seed, self._options_differ = None, False
        self._reset_options()
        return observations

    def _reset_one_by_one(self) -> Any:
        """The engine gives all envs of a reset the same options."""
        observations = None
        for row, options in enumerate(self._options):
            mask = np.arange(self.num_envs) == row
            observations, infos = self.engine.reset(seed=self._next_seed, options={**options, "reset_mask": mask})
            self.reset_infos[row] = _info_of_each(infos, self.num_envs)[row]
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Start a step of all envs."""
        if isinstance(self.action_space, gym.spaces.MultiBinary):  # SB3's policies give these as floats
            actions = np.asarray(actions).astype(self.action_space.dtype)
        self._whole.send(actions)
        self._stepping = True

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Observations, rewards, dones and infos of the step under way."""
        self._stepping = False
        observations, rewards, terminated, truncated, infos = self._whole.recv()
        dones = terminated | truncated
        listed = self._list_infos(infos, dones)
        for info, cut_short in zip(listed, (truncated & ~terminated).tolist(), strict=True):
            info["TimeLimit.truncated"] = cut_short
        return observations, rewards.astype(np.float32), dones, listed

    @property
    def _whole(self) -> Group:
        """All envs as one group, whose `send` and `recv` are faster than those for a subset of envs."""
        return self.engine.groups[0]

    def _list_infos(self, infos: dict[str, Any], dones: np.ndarray) -> list[dict[str, Any]]:
        """One info per env. Where an episode ended it is that of the last step; the new episode's goes to
        `reset_infos`."""
        if not infos:
            return [{} for _ in range(self.num_envs)]
        last_observations, last_infos = infos.pop("final_obs", None), infos.pop("final_info", None)
        listed = _info_of_each(infos, self.num_envs)
        if last_observations is not None:
            endings = _info_of_each(last_infos, self.num_envs)
            for row in np.flatnonzero(dones).tolist():
                self.reset_infos[row] = listed[row]
                listed[row] = {**endings[row], "terminal_observation": last_observations[row]}
        return listed

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    # --- attributes and methods of the envs ----------------------------------------------------------------------

    def has_attr(self, attr_name: str) -> bool:
        """Whether all envs have this attribute; it is not fetched, so it may be anything."""
        return all(self.engine.call("has_wrapper_attr", attr_name))

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """An attribute of some envs; a method is returned, not called."""
        return list(self.engine.call_some(self._rows(indices), "get_wrapper_attr", attr_name))

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Set an attribute of some envs to one value."""
        rows = self._rows(indices)
        self.engine.set_some(rows, attr_name, [value] * len(rows))

    def env_method(
        self, method_name: str, *method_args: Any, indices: int | Iterable[int] | None = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of some envs."""
        return list(self.engine.call_some(self._rows(indices), method_name, *method_args, **method_kwargs))

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper], indices: int | Iterable[int] | None = None
    ) -> list[bool]:
        """Whether some envs have a wrapper of this class around them."""
        return list(self.engine.is_wrapped(wrapper_class, self._rows(indices)))

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Each env's image, if they were made with `render_mode="rgb_array"`."""
        if self.render_mode != "rgb_array":
            return [None] * self.num_envs
        return list(self.engine.render())

    def _rows(self, indices: int | Iterable[int] | None) -> list[int]:
        """Env numbers; negative ones count from the end, as in SB3's own."""
        return [range(self.num_envs)[index] for index in self._get_indices(indices)]


def _info_of_each(infos: dict[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """A vector env's infos (a column per key, a `_key` mask beside it) as one dict per env."""
    listed: list[dict[str, Any]] = [{} for _ in range(num_envs)]
    for key, column in infos.items():
        mask = infos.get(f"_{key}")
        if mask is None:  # the mask of another key
            continue
        values = _info_of_each(column, num_envs) if isinstance(column, dict) else _plain(column)
        for row in np.flatnonzero(mask).tolist():
            listed[row][key] = values[row]
    return listed


def _plain(column: np.ndarray) -> Sequence[Any]:
    """Numbers as Python's types, which loggers and JSON can write."""
    return column.tolist() if column.ndim == 1 and column.dtype != object else column  # type: ignore[return-value]
