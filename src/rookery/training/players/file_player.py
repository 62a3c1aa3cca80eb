"""Players in Python files of their own, as people bring them to a tournament."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import OptionError, SpaceError
from rookery.training.resolve.seats import Seat
from rookery.user_code import load_file, written_in


class FilePlayer:
    """`file.py:Agent`: a class that is called without arguments, once per env. It has `act(obs)` for one observation
    and, optionally, `reset()` for the start of a game. In worlds with action masks, an `act(obs, action_mask)` gets
    the mask too."""

    def __init__(self, spec: str, seat: Seat) -> None:
        path, _, attribute = spec.rpartition(":")
        self.name, self._spec, self._seat = f"{Path(path).stem}.{attribute}", spec, seat
        self._make = _find_class(spec)
        self._instances: dict[int, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Elsewhere it is made from its file anew, without the games that it plays."""
        path, _, attribute = self._spec.rpartition(":")
        return FilePlayer, (f"{Path(path).absolute()}:{attribute}", self._seat)

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        for env in envs.tolist():
            if env not in self._instances:
                self._instances[env] = self._new()
            reset = getattr(self._instances[env], "reset", None)
            if callable(reset):
                reset()

    def act(self, observations: np.ndarray, envs: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        numbers = envs.tolist()
        takes_mask = mask is not None and _takes_mask(self._instances[numbers[0]].act)
        masks = [{"action_mask": row.copy()} for row in mask] if takes_mask and mask is not None else [{}] * len(envs)
        return np.stack(
            [
                self._checked(self._instances[env].act(observation.copy(), **allowed))
                for env, observation, allowed in zip(numbers, observations, masks, strict=True)
            ]
        )

    def _new(self) -> Any:
        try:
            made = self._make()
        except TypeError as error:
            raise OptionError(f"{self._spec} should take no arguments: {error}") from error
        if not callable(getattr(made, "act", None)):
            raise OptionError(f"{self._spec} should have a method act(obs)")
        return made

    def _checked(self, action: Any) -> np.ndarray:
        """An action in the seat's space; clipped to its bounds, as is usual in such tournaments."""
        space = self._seat.action_space
        try:
            numbers = np.asarray(action, np.float64)
        except (TypeError, ValueError):
            raise SpaceError(f"{self._spec}: act(obs) should return numbers for {space}, got {action!r}") from None
        if numbers.shape != space.shape:
            raise SpaceError(f"{self._spec}: act(obs) should return numbers of shape {space.shape}, got {action!r}")
        if not np.isfinite(numbers).all():
            raise SpaceError(f"{self._spec}: act(obs) should return finite numbers, got {action!r}")
        if isinstance(space, spaces.Box):
            return np.clip(numbers, space.low, space.high).astype(space.dtype)
        if not space.contains(chosen := numbers.astype(space.dtype)) or (chosen != numbers).any():
            raise SpaceError(f"{self._spec}: act(obs) should return an action in {space}, got {action!r}")
        return chosen


def _takes_mask(act: Callable[..., Any]) -> bool:
    try:
        return "action_mask" in inspect.signature(act).parameters
    except (TypeError, ValueError):  # not written in Python
        return False


def _find_class(spec: str) -> Callable[[], Any]:
    """The class or function at `file.py:Agent`."""
    path, _, attribute = spec.rpartition(":")
    if not os.path.isfile(path):
        raise OptionError(f"{spec!r}: there is no file {path!r}")
    module = load_file(path, "opponents")
    found = getattr(module, attribute, None)
    if not callable(getattr(found, "act", None)) and not written_in(path, found):
        known = [name for name, item in vars(module).items() if callable(getattr(item, "act", None))]
        raise OptionError(
            f"{spec!r}: {path} has no class {attribute!r}; with a method act there are: {known or 'none'}"
        )
    return found  # type: ignore[return-value]
