"""rookery's engine under Stable-Baselines3: `VecEnv` takes the place of `SubprocVecEnv` and `DummyVecEnv`.

>>> import rookery.sb3
>>> from stable_baselines3 import PPO
>>> from stable_baselines3.common.env_util import make_vec_env
>>> backend = {"backend": "serial"}
>>> vec_env = make_vec_env("CartPole-v1", n_envs=4, vec_env_cls=rookery.sb3.VecEnv, vec_env_kwargs=backend)
>>> vec_env.reset().shape
(4, 4)
>>> model = PPO("MlpPolicy", vec_env, n_steps=16, batch_size=64, n_epochs=1).learn(64)
>>> vec_env.close()

`as_vec_env(envs)` does the same for an engine that `rookery.make_vec` made.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rookery._sb3 import ActionBatch, EnvFunction, FlatActions, backend_for, fits_sb3
from rookery.engine.engine import Engine
from rookery.engine.local import LocalEngine
from rookery.engine.make_vec import make_vec
from rookery.engine.segments import Group
from rookery.errors import MissingExtra, OptionError, WorldError

try:
    from stable_baselines3.common.preprocessing import check_for_nested_spaces
    from stable_baselines3.common.vec_env import VecEnv as SB3VecEnv
except ImportError as error:
    raise MissingExtra(f"rookery.sb3 needs Stable-Baselines3 ({error}): pip install 'rookery[sb3]'") from None

__all__ = ["EngineVecEnv", "VecEnv", "as_vec_env"]


def as_vec_env(envs: Engine, flatten_actions: bool = False) -> EngineVecEnv:
    """A Stable-Baselines3 `VecEnv` over an engine made with `autoreset_mode="same_step"`.

    The engine belongs to the `VecEnv` from then on: step and close it there. See `VecEnv` for `flatten_actions`.
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
    return EngineVecEnv(envs, flatten_actions)


class EngineVecEnv(SB3VecEnv):
    """What `as_vec_env` returns; `.engine` is the engine behind it."""

    def __init__(self, engine: Engine, flatten_actions: bool = False) -> None:
        self.engine, self.spec = engine, engine.spec
        self._options_differ = self._stepping = self._was_reset = False
        space = engine.single_action_space
        flat = FlatActions(space) if flatten_actions and not fits_sb3(space) else None
        self._batch_actions = ActionBatch(space, engine.num_envs) if flat is None else flat.decode
        super().__init__(engine.num_envs, engine.single_observation_space, space if flat is None else flat.space)
        self.metadata = {key: value for key, value in engine.metadata.items() if key != "autoreset_mode"}

    # --- episodes -----------------------------------------------------------------------------------------------

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
        seeds = self._given_seeds()
        if self._options_differ:
            observations = self._reset_one_by_one(seeds)
        else:
            observations, infos = self.engine.reset(seed=seeds, options=self._options[0] or None)
            self.reset_infos = _info_of_each(infos, self.num_envs)
        self._options_differ, self._was_reset = False, True
        self._reset_seeds()
        self._reset_options()
        return observations

    def _given_seeds(self) -> int | list[int | None] | None:
        """What `seed` gave; as one integer, of which the engine gives `seed + i`, also to envs that are restarted."""
        seeds = list(self._seeds)
        first = seeds[0]
        return first if seeds == [None if first is None else first + i for i in range(len(seeds))] else seeds

    def _reset_one_by_one(self, seeds: int | list[int | None] | None) -> Any:
        """The engine gives all envs of a reset the same options."""
        observations = None
        for row, options in enumerate(self._options):
            mask = np.arange(self.num_envs) == row
            observations, infos = self.engine.reset(seed=seeds, options={**options, "reset_mask": mask})
            self.reset_infos[row] = _info_of_each(infos, self.num_envs)[row]
        return observations

    def step_async(self, actions: Any) -> None:
        """Start a step of all envs: an array, or for Dict and Tuple actions a list with one action for each env. Envs
        that were never reset are reset first."""
        if not self._was_reset:
            self.reset()
        self._whole.send(self._batch_actions(actions))
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

    @property
    def envs(self) -> list[gym.Env]:
        """The envs themselves, as `DummyVecEnv` has them; only backends "serial" and "thread" keep them here."""
        if not isinstance(self.engine, LocalEngine):
            here = f'with backend="{self.engine.backend}" the envs are not objects of this process'
            raise AttributeError(f'{here}: use get_attr, set_attr and env_method, or backend="serial"')
        return self.engine.envs

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
            warnings.warn(f'there are images with render_mode="rgb_array", not {self.render_mode!r}', stacklevel=2)
            return [None] * self.num_envs
        return list(self.engine.render())

    def _rows(self, indices: int | Iterable[int] | None) -> list[int]:
        """Env numbers; negative ones count from the end, as in SB3's own."""
        return [range(self.num_envs)[index] for index in self._get_indices(indices)]


class VecEnv(EngineVecEnv):
    """Envs for Stable-Baselines3, made as `SubprocVecEnv` and `DummyVecEnv` make theirs.

    Args:
        env_fns: Functions that build the envs, one for each.
        start_method: How worker processes are started: "fork", "spawn" or "forkserver". If given, the envs step in
            worker processes; otherwise `backend` decides.
        flatten_actions: Present Dict, Tuple and mixed action spaces as one MultiDiscrete or Box, in which SB3's
            algorithms can act. Without it, such envs take lists of dicts or tuples.
        options: The other options of `rookery.make_vec`: `backend` ("auto" by default), `workers`, `on_failure`
            and more. `bad_values` is "allow" here: as in SB3, observations are cast to their space and not checked.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env]],
        start_method: str | None = None,
        *,
        flatten_actions: bool = False,
        **options: Any,
    ) -> None:
        if callable(env_fns) or isinstance(env_fns, str) or not env_fns:
            raise WorldError(
                f"VecEnv needs a list of functions that build envs, one for each, got {env_fns!r:.80}; such as "
                "[lambda: gymnasium.make('CartPole-v1')] * 4"
            )
        for name in ("autoreset_mode", "copy", "groups", "num_envs", "env_kwargs"):
            if name in options:
                raise OptionError(f"VecEnv sets {name} itself: leave it out")
        if start_method is not None:
            _check_start_method(start_method)
            options = {"backend": "process", **options}
        defaults = {"start_method": start_method, "autoreset_mode": "same_step", "bad_values": "allow"}
        makers = [EnvFunction(function) if _builds(function) else function for function in env_fns]
        options["backend"] = backend_for(makers, options.get("backend", "auto"))
        engine = make_vec(makers, **{**defaults, **options})
        try:
            check_for_nested_spaces(engine.single_observation_space)  # of which SB3 can make nothing
            super().__init__(engine, flatten_actions)
        except BaseException:
            engine.close()
            raise


def _check_start_method(start_method: Any) -> None:
    """As SubprocVecEnv, with its ValueError."""
    try:
        multiprocessing.get_context(start_method)
    except ValueError as error:
        known = ", ".join(multiprocessing.get_all_start_methods())
        raise OptionError(
            f"{error}: the second argument is start_method, as of SubprocVecEnv, one of {known}; there are as many "
            "envs as functions in the first one"
        ) from None


def _builds(function: Any) -> bool:
    """Whether it can be called for an env; `make_vec` refuses anything else by name."""
    return callable(function) and not isinstance(function, gym.Env)


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
