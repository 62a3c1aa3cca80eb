"""Vector envs of other libraries whose observations are tensors, as the training loop steps an engine.

Their own code steps the envs, on a GPU or not. This class adds what the loop needs beyond Gymnasium's interface, on the
same device: resets in the same step, final observations, and the returns and lengths of episodes. Nothing is copied
to the host, and the host waits for nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from rookery.engine import seeding
from rookery.engine.env_factory import EnvFactory
from rookery.engine.machine import process_usage
from rookery.errors import StateError, UsageError, WorldError

NEEDED = ("num_envs", "single_observation_space", "single_action_space", "reset", "step")
NOTES = {
    "mode": "its metadata has no autoreset_mode: SAME_STEP is assumed, in which a step that ends an episode returns "
    "the first observation of the next one",
    "final_obs": "its infos have no final_obs: where an episode was truncated, the value of the observation before is "
    "used instead",
    "next_step": "it resets envs in the step after an episode's end (NEXT_STEP): that step counts as a step, and is "
    "recorded as truncated with a reward of 0",
    "seed": "its seeds are fixed when it is made: give it one there; the seed of the run is for the learner alone",
}


class TensorVectorEnv(VectorEnv):
    """A vector env that returns tensors, for `rookery.train`.

    - Its observations may be torch tensors, or arrays of another library that torch can share (`__dlpack__`); actions
      are given to it in the same form.
    - Of Gymnasium's modes, SAME_STEP costs nothing. With DISABLED the host asks in every step whether an episode has
      ended. With NEXT_STEP the step that resets an env is recorded too.
    """

    backend = "tensor"
    returns_tensors = True
    can_be_captured = False  # its own code runs in every step
    on_note: Callable[[str], None] | None = None
    restarts = 0  # these envs are never restarted
    workers = 1

    def __init__(self, envs: Any, device: str | torch.device | None = None, *, owned: bool = False) -> None:
        """`device` is the learner's; without one, that of the observations. Envs that are `owned` are closed too."""
        self.envs, self._owned = envs, owned
        inner = envs.unwrapped if hasattr(envs, "unwrapped") else envs
        check_interface(inner)
        self.num_envs = int(inner.num_envs)
        self.single_observation_space = inner.single_observation_space
        self.single_action_space = inner.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.title = getattr(envs, "title", type(inner).__name__)
        self.source = EnvFactory((lambda: envs,), self.title, endless=True)
        mode = (getattr(inner, "metadata", None) or {}).get("autoreset_mode")
        self._mode = AutoresetMode.SAME_STEP if mode is None else AutoresetMode(mode)
        self.metadata = {**(getattr(inner, "metadata", None) or {}), "autoreset_mode": AutoresetMode.SAME_STEP}
        self._noted = set[str]()
        self._unsure = ["mode"] if mode is None else ["next_step"] if self._mode is AutoresetMode.NEXT_STEP else []
        self._unsure += ["seed"] if getattr(envs, "ignores_seed", False) else []
        self._gives_finals: bool | None = None  # in SAME_STEP mode; not known before the first episode has ended
        self._device = None if device is None else torch.device(device)
        self._observations: Any = None
        self._mask: Tensor | None = None
        self.steps = 0

    def _allocate(self, device: torch.device) -> None:
        """What is counted of each row."""
        self.device = device
        self._returns = torch.zeros(self.num_envs, dtype=torch.float32, device=device)
        self._lengths = torch.zeros(self.num_envs, dtype=torch.int64, device=device)
        self.last_returns, self.last_lengths = self._returns.clone(), self._lengths.clone()
        self._begun = torch.ones_like(self._lengths)
        self._resetting = torch.zeros(self.num_envs, dtype=torch.bool, device=device)

    # --- as an engine -------------------------------------------------------------------------------------------

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all envs. They get one seed, from which their own code derives those of each."""
        root = seeding.root_of(seed)
        observations, infos = self.envs.reset(
            seed=None if root is None else seeding.child_seed(root), options=options or None
        )
        given = first_tensor(observations)
        if given is None or len(given) != self.num_envs:
            raise WorldError(
                f"{self.title}.reset() returned observations of type {_kind(observations)}, and a vector env of "
                f"tensors returns tensors whose first dimension is its number of envs ({self.num_envs})"
            )
        self._like = observations
        if self._observations is None:
            self._env_device = given.device
            self._allocate(self._device or given.device)
        for counted in (self._returns, self._lengths, self._resetting):
            counted.zero_()
        for key in self._unsure:
            self._note(key)
        return self._keep(observations, infos), infos

    def step(self, actions: Any) -> tuple[Any, Tensor, Tensor, Tensor, dict[str, Any]]:
        before = self._before()
        found = self.envs.step(self._to_env(actions))
        observations, infos = found[0], found[4]
        rewards, terminated, truncated = (self._flat(part) for part in found[1:4])
        rewards, terminated, truncated = rewards.float(), terminated.bool(), truncated.bool()
        ended = terminated | truncated
        self._count(rewards, ended & ~self._resetting)
        if self._mode is AutoresetMode.NEXT_STEP:
            rewards = rewards.masked_fill(self._resetting, 0.0)
            terminated, truncated = terminated & ~self._resetting, truncated | self._resetting
            finals = where_rows(self._resetting, before, self._on_device(observations))
            self._resetting, ended = ended & ~self._resetting, terminated | truncated
        else:
            finals, observations, infos = self._finals(before, observations, infos, ended)
        self.steps += self.num_envs
        seen = self._keep(observations, infos)
        return seen, rewards, terminated, truncated, {**infos, "final_obs": finals, "_final_obs": ended}

    def step_for_learner(self, actions: Any) -> tuple[Any, Tensor, Tensor, Tensor, Any]:
        """Observations, rewards and flags as `step` returns them, and the final observations in the place of infos."""
        observations, rewards, terminated, truncated, infos = self.step(actions)
        return observations, rewards, terminated, truncated, infos["final_obs"]

    def present(self) -> tuple[Any, Tensor | None]:
        """The observations of all envs and their action masks, or None."""
        return self._observations, self._mask

    def check(self) -> None:
        """Nothing to do: an env that fails raises in its own code."""

    def device_state(self) -> list[Tensor]:
        """Nothing: the envs' steps are not captured."""
        return []

    def episodes_begun(self) -> Tensor:
        """How many episodes each row has begun; the one that is running counts."""
        return self._begun.clone()

    def running(self) -> Tensor:
        """Returns and lengths of the episodes that are running, [2, rows]."""
        return torch.stack([self._returns.double(), self._lengths.double()])

    def final_infos(self) -> dict[str, Tensor]:
        """Nothing: what infos mean is known to the envs alone."""
        return {}

    def stats(self) -> list[dict[str, Any]]:
        """As of other engines, for this process."""
        return [{**process_usage(os.getpid()), "worker": 0, "envs": self.num_envs, "steps": self.steps}]

    def finished_episodes(self) -> np.ndarray:
        """Not here: see the message."""
        raise UsageError("a vector env of tensors lists no finished episodes: read last_returns and last_lengths")

    def state_dict(self, portable: bool = True) -> dict[str, Any]:
        """Not possible: see the message."""
        raise StateError(f"{self.title}, a vector env of another library, cannot save its state")

    def load_state_dict(self, state: dict[str, Any]) -> Any:
        """Not possible: see `state_dict`."""
        raise StateError(f"{self.title}, a vector env of another library, cannot load a state")

    def close_extras(self, **kwargs: Any) -> None:
        """Close the envs if they were made for this run."""
        if self._owned:
            self.envs.close()

    # --- helpers ------------------------------------------------------------------------------------------------

    def _before(self) -> Any:
        """The observations before a step, if they may be needed after it: the envs may overwrite them."""
        same_step = self._mode is AutoresetMode.SAME_STEP
        needed = not self._gives_finals if same_step else self._mode is AutoresetMode.NEXT_STEP
        return copied(self._observations) if needed else None

    def _count(self, rewards: Tensor, ended: Tensor) -> None:
        """Returns and lengths of episodes. A step that only resets an env is in none."""
        real = ~self._resetting
        self._returns += rewards * real
        self._lengths += real
        self.last_returns.copy_(torch.where(ended, self._returns, self.last_returns))
        self.last_lengths.copy_(torch.where(ended, self._lengths, self.last_lengths))
        self._returns.masked_fill_(ended, 0.0)
        self._lengths.masked_fill_(ended, 0)
        self._begun += ended

    def _finals(self, before: Any, observations: Any, infos: dict, ended: Tensor) -> tuple[Any, Any, dict]:
        """Final observations, those that episodes continue from, and infos."""
        if self._mode is AutoresetMode.DISABLED:
            finals = copied(self._on_device(observations))
            if bool(ended.any()):
                mask = ended.to(self._env_device)
                observations, infos = self.envs.reset(options={"reset_mask": as_given(mask, self._like)})
            return finals, observations, infos
        given = infos.get("final_obs", infos.get("final_observation"))
        tensor = None if given is None else first_tensor(given)
        if tensor is not None and len(tensor) == self.num_envs:
            self._gives_finals = True
            return self._on_device(given), observations, infos
        if self._gives_finals:  # and not in this step, as no episode has ended
            return self._on_device(observations), observations, infos
        if self._gives_finals is None and bool(ended.any()):
            self._gives_finals = False
            self._note("final_obs")
        return before, observations, infos

    def _keep(self, observations: Any, infos: dict[str, Any]) -> Any:
        mask = infos.get("action_mask")
        self._mask = None if mask is None else self._on_device(mask).bool()
        self._observations = self._on_device(observations)
        return self._observations

    def _on_device(self, values: Any) -> Any:
        return mapped(lambda tensor: tensor.to(self.device), as_tensors(values))

    def _flat(self, values: Any) -> Tensor:
        """One number of each env: some libraries return columns."""
        return self._on_device(values).reshape(self.num_envs)

    def _to_env(self, actions: Any) -> Any:
        """Actions in the form and the types of the envs."""
        spaces = numbers_in(self.single_action_space, actions)
        return as_given(mapped(lambda tensor: tensor.to(self._env_device), spaces), self._like)

    def _note(self, key: str) -> None:
        """Say something once."""
        if key not in self._noted and self.on_note is not None:
            self._noted.add(key)
            self.on_note(f"{self.title}: {NOTES[key]}")


def check_interface(envs: Any) -> None:
    """Refuse what is not a vector env, and say what it lacks."""
    missing = [name for name in NEEDED if not hasattr(envs, name)]
    if missing:
        raise WorldError(
            f"{type(envs).__name__} has no {' and no '.join(missing)}: a vector env needs {', '.join(NEEDED)}, as "
            "gymnasium.vector.VectorEnv has them"
        )
    for name in ("single_observation_space", "single_action_space"):
        if not isinstance(getattr(envs, name), gym.Space):
            raise WorldError(
                f"{type(envs).__name__}.{name} should be a Gymnasium space, got {getattr(envs, name)!r:.60}"
            )


def _kind(observations: Any) -> str:
    if isinstance(observations, dict) and observations:
        return f"dict of {_kind(next(iter(observations.values())))}"
    return type(observations).__name__


# --- nested tensors: torch's own, or arrays that torch can share, such as JAX's ---------------------------------------


def mapped(function: Callable[[Any], Any], values: Any) -> Any:
    """A function of each leaf of nested dicts and tuples.

    >>> mapped(lambda x: x + 1, {"a": 1, "b": (2, 3)})
    {'a': 2, 'b': (3, 4)}
    """
    if isinstance(values, dict):
        return {key: mapped(function, part) for key, part in values.items()}
    if isinstance(values, (tuple, list)):
        return tuple(mapped(function, part) for part in values)
    return function(values)


def is_shareable(value: Any) -> bool:
    """Whether it is a tensor, or an array that torch can share without a copy; NumPy's are not meant."""
    return isinstance(value, Tensor) or (hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray))


def first_tensor(values: Any) -> Tensor | None:
    """The first leaf as a tensor; None if it is none."""
    while isinstance(values, (dict, tuple, list)) and len(values):
        values = next(iter(values.values() if isinstance(values, dict) else values))
    return as_tensors(values) if is_shareable(values) and values.ndim else None


def as_tensors(values: Any) -> Any:
    """Nested arrays as torch's tensors, which share their memory."""
    return mapped(lambda x: x if isinstance(x, Tensor) else torch.from_dlpack(x), values)


def as_given(tensors: Any, like: Any) -> Any:
    """Tensors as arrays of the library that `like` is of."""
    while isinstance(like, (dict, tuple, list)):
        like = next(iter(like.values() if isinstance(like, dict) else like))
    if isinstance(like, Tensor) or not hasattr(like, "__array_namespace__"):
        return tensors
    library = like.__array_namespace__()
    return mapped(lambda tensor: library.from_dlpack(tensor.contiguous()), tensors)


def copied(values: Any) -> Any:
    """Nested tensors that nobody overwrites."""
    return mapped(lambda x: x.clone(), values)


def where_rows(chosen: Tensor, these: Any, others: Any) -> Any:
    """Rows of one nested tensor where `chosen` [rows] is true, of the other where not."""
    if isinstance(these, dict):
        return {key: where_rows(chosen, part, others[key]) for key, part in these.items()}
    if isinstance(these, tuple):
        return tuple(where_rows(chosen, *parts) for parts in zip(these, others, strict=True))
    return torch.where(chosen.reshape(-1, *[1] * (these.ndim - 1)), these, others)


def numbers_in(space: spaces.Space, actions: Any) -> Any:
    """Actions in the dtypes of a space."""
    if isinstance(space, spaces.Dict):
        return {key: numbers_in(part, actions[key]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(numbers_in(part, x) for part, x in zip(space.spaces, actions, strict=True))
    return actions.to(torch.from_numpy(np.zeros(0, space.dtype)).dtype)
