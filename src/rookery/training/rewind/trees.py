"""Where two states of runs differ, and by how much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.learners.learner import Tree
from rookery.training.rewind.gradients import made_so_far

UNSEEDED = ("seconds", "action_space", "observation_space")  # clocks, and generators that no seed of a run reaches
COUNTED = ("seconds", "looked_at", "restarts")  # of the loop: clocks, and what was looked at when
BRANCHES = "envs.engine.envs."  # each env has a branch of its own there
# Causes before effects: what is first is named.
ORDER = ("agent", "learner", "envs", "course", "loop", "callbacks")


@dataclass(frozen=True)
class StateDifference:
    """An array or a value that differs."""

    name: str  # such as agent.policy.actor.layers.0.weight
    count: int = 1  # of its numbers that differ
    largest: float | None = None  # difference of two numbers
    index: tuple[int, ...] = ()  # of the first number that differs
    values: tuple[Any, Any] = (None, None)  # the first two that differ

    @property
    def env(self) -> int | None:
        """The first env that differs, where this is something of envs."""
        if self.name.startswith(BRANCHES):  # of envs in Python
            return int(self.name.removeprefix(BRANCHES).partition(".")[0])
        if self.name.startswith("envs."):
            return self.index[0] if self.index else None
        return self.index[1] if self.name.startswith("learner.rollout.") and len(self.index) > 1 else None

    def __str__(self) -> str:
        where = f"{self.name}{list(self.index)}" if self.index else self.name
        more = f"; {self.count:,} numbers differ, by up to {self.largest:.3g}" if self.largest is not None else ""
        return f"{where}: {self.values[0]!r:.32} and {self.values[1]!r:.32}{more}"


def differences(one: Tree, other: Tree) -> list[StateDifference]:
    """All that differs between two checkpoints' trees, causes first; nothing that depends on a clock."""
    found = _walk(_comparable(one), _comparable(other), "")
    return sorted(found, key=lambda difference: _rank(difference.name))


def _rank(name: str) -> int:
    part = name.partition(".")[0]
    return ORDER.index(part) if part in ORDER else len(ORDER)


def _comparable(tree: Tree) -> Tree:
    loop = {name: value for name, value in tree.get("loop", {}).items() if name not in COUNTED}
    learner = dict(tree.get("learner", {}))
    if learner.get("rollout"):  # what follows the steps so far is left from the rollout before
        learner["rollout"] = made_so_far(learner["rollout"])
    agent = {name: value for name, value in tree.get("agent", {}).items() if name != "options"}  # of the config
    return {**tree, "agent": agent, "loop": loop, "learner": learner, "envs": _seeded(tree.get("envs", {}))}


def _seeded(branch: Any) -> Any:
    if not isinstance(branch, dict):
        return branch
    return {name: _seeded(value) for name, value in branch.items() if name not in UNSEEDED}


def _walk(one: Any, other: Any, name: str) -> Iterator[StateDifference]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            inner = f"{name}.{key}".lstrip(".")
            if key in one and key in other:
                yield from _walk(one[key], other[key], inner)
            else:
                yield StateDifference(
                    inner, values=("there" if key in one else None, "there" if key in other else None)
                )
    elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        yield from _of_arrays(one, other, name)
    elif not _same(one, other):
        yield StateDifference(name, values=(one, other))


def _same(one: Any, other: Any) -> bool:
    return bool(type(one) is type(other) and (one == other or (one != one and other != other)))


def _of_arrays(one: np.ndarray, other: np.ndarray, name: str) -> Iterator[StateDifference]:
    if one.dtype != other.dtype or one.shape != other.shape:
        yield StateDifference(name, values=(f"{one.dtype}{list(one.shape)}", f"{other.dtype}{list(other.shape)}"))
        return
    if one.tobytes() == other.tobytes():
        return
    bits = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1) for array in (one, other)]
    places = np.flatnonzero((bits[0] != bits[1]).any(1))
    index = tuple(int(k) for k in np.unravel_index(places[0], one.shape)) if one.ndim else ()
    first = one.reshape(-1)[places[0]].item(), other.reshape(-1)[places[0]].item()
    largest = None
    if one.dtype.kind in "iuf":
        pair = (array.reshape(-1)[places].astype(np.float64) for array in (one, other))
        largest = float(np.nanmax(np.abs(np.subtract(*pair)), initial=0.0))
    yield StateDifference(name, len(places), largest, index, first)
