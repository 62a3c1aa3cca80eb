"""The options of `make_vec`, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.vector import AutoresetMode

from rookery.errors import OptionError, OptionTypeError

START_METHODS = ("fork", "spawn", "forkserver")


@dataclass(frozen=True)
class Settings:
    """The engine's options; see `make_vec` for what each one means to a user."""

    num_envs: int
    workers: int = 1
    batch_size: int | None = None
    groups: int = 1
    start_method: str | None = None
    autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    copy: bool = True
    step_timeout: float | None = None
    on_failure: str = "raise"
    max_restarts: int = 3
    restart_window: float = 60.0
    bad_values: str = "raise"
    isolate_random: bool | None = None
    close_timeout: float = 5.0
    pin: bool | None = None
    bounds: bool | None = None
    observation_mode: Any = "same"
    shared_memory: bool | None = None
    device: str | None = None
    watch_cost: bool = False  # whether the number of workers is a guess

    @property
    def spaces_differ(self) -> bool:
        """Whether the batched observation space is made from those of all envs."""
        return isinstance(self.observation_mode, str) and self.observation_mode == "different"

    @property
    def own_space(self) -> Space | None:
        """The space of one env's observations that the caller gave; None: that of the first env."""
        mode = self.observation_mode
        return mode if isinstance(mode, Space) else mode[1] if isinstance(mode, tuple) else None

    @property
    def strictness(self) -> bool | str:
        """Checks of observations: all (True), shape, NaN and infinity ("finite"), or the shape alone (False)."""
        return "finite" if self.bad_values == "finite" else self.bad_values != "allow"

    def __post_init__(self) -> None:
        positive_int("num_envs", self.num_envs)
        positive_int("workers", self.workers)
        if self.workers > self.num_envs:
            raise OptionError(
                f"workers={self.workers} is more than num_envs={self.num_envs}; a worker needs at least one env"
            )
        positive_int("groups", self.groups)
        if self.groups > self.num_envs:
            raise OptionError(f"groups={self.groups} is more than num_envs={self.num_envs}")
        if self.batch_size is not None:
            positive_int("batch_size", self.batch_size)
            if self.batch_size > self.num_envs:
                raise OptionError(f"batch_size={self.batch_size} is more than num_envs={self.num_envs}")
            if self.groups > 1:
                raise OptionError("give batch_size or groups, not both: each divides the envs in its own way")
        _check_observation_mode(self.observation_mode)
        one_of("start_method", self.start_method, (None, *START_METHODS))
        one_of("on_failure", self.on_failure, ("raise", "restart"))
        one_of("bad_values", self.bad_values, ("raise", "restart", "finite", "allow"))
        one_of("bounds", self.bounds, (None, True, False))
        if not isinstance(self.max_restarts, int) or self.max_restarts < 0:
            raise OptionError(f"max_restarts should be a non-negative integer, got {self.max_restarts!r}")
        for name in ("step_timeout", "restart_window", "close_timeout"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and value > 0):
                raise OptionError(f"{name} should be a positive number of seconds, got {value!r}")

    @property
    def per_env(self) -> bool:
        """Whether every env must be able to finish on its own."""
        return self.batch_size is not None and self.batch_size < self.num_envs


def _check_observation_mode(mode: Any) -> None:
    if isinstance(mode, Space) or (isinstance(mode, str) and mode in ("same", "different")):
        return
    expected = (
        f"observation_mode should be 'same', 'different', a space of one env's observations, or a tuple of the batched "
        f"space and that of one env, got {mode!r:.200}"
    )
    if not isinstance(mode, tuple) or len(mode) != 2:
        raise OptionError(expected)
    if not all(isinstance(space, Space) for space in mode):
        raise OptionTypeError(expected)


def plain_int(value: Any) -> Any:
    """NumPy's integers as Python's own; anything else as it is."""
    return int(value) if isinstance(value, np.integer) else value


def positive_int(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(f"{name} should be a positive integer, got {value!r}")


def one_of(name: str, value: Any, valid: tuple) -> None:
    if value not in valid:
        raise OptionError(f"{name} should be one of {', '.join(map(repr, valid))}, got {value!r}")


def autoreset(mode: Any) -> AutoresetMode:
    """Accept the enum, its value ('NextStep') or its name in any case ('next_step')."""
    if isinstance(mode, AutoresetMode):
        return mode
    for known in AutoresetMode:
        if isinstance(mode, str) and mode.lower().replace("-", "_") in (known.name.lower(), known.value.lower()):
            return known
    names = ", ".join(repr(known.name.lower()) for known in AutoresetMode)
    raise OptionError(f"autoreset_mode should be one of {names}, got {mode!r}")


def without_mask(options: dict[str, Any] | None) -> tuple[dict[str, Any] | None, Any]:
    """The options that each env's `reset` receives, and `options["reset_mask"]`, which is the engine's own."""
    if options is None or "reset_mask" not in options:
        return options, None
    return {key: value for key, value in options.items() if key != "reset_mask"} or None, options["reset_mask"]


def masked_rows(mask: Any, num_envs: int) -> list[int]:
    """The rows that `options["reset_mask"]` selects."""
    array = np.asarray(mask)
    if array.dtype != np.bool_ or array.shape != (num_envs,):
        wrong = OptionTypeError if array.dtype != np.bool_ else OptionError
        raise wrong(
            f"options['reset_mask'] should be a bool array of shape ({num_envs},), "
            f"got {array.dtype} of shape {array.shape}"
        )
    if not array.any():
        raise OptionError(f"options['reset_mask'] selects no env: at least one of {num_envs} values should be True")
    return np.flatnonzero(array).tolist()


def masked_worlds(mask: Any, num_envs: int, agents: int) -> np.ndarray:
    """Which worlds `options["reset_mask"]` selects, where each world has a row for each of its agents."""
    rows = np.zeros((num_envs // agents, agents), np.bool_)
    rows.flat[masked_rows(mask, num_envs)] = True
    if (rows.any(axis=1) != rows.all(axis=1)).any():
        raise OptionError("options['reset_mask'] should select complete worlds: all rows of a world, or none of them")
    return rows[:, 0].copy()
