"""Steps of envs that were made elsewhere, as arrays, on their way to where it is learned from them: parts of a rollout,
which are joined in the order of their envs or as they come, and chunks of an off-policy learner's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.learner import Learner, StepBatch
from rookery.learners.observations import split
from rookery.learners.rollout import Rollout

NAMES = ("actions", "outputs", "rewards", "terminated", "ended", "starts", "features")
RolloutPart = dict[str, Any]  # arrays by name, contiguous


def take_part(rollout: Rollout) -> RolloutPart:
    """A full rollout as arrays, without its noise, which came from the process that joins the parts. They are views."""
    named = {f"observation{k}": leaf for k, leaf in enumerate(rollout.observations)}
    named |= {f"last{k}": leaf for k, leaf in enumerate(rollout.last)}
    named |= {name: getattr(rollout, name) for name in (*NAMES, "masks") if getattr(rollout, name) is not None}
    if rollout.finals:
        steps, envs, leaves = rollout.joined_finals()
        named |= {"final_steps": steps, "final_envs": envs}
        named |= {f"final_leaf{k}": leaf for k, leaf in enumerate(leaves)}
    return {name: tensor.numpy() for name, tensor in named.items()}


def join_parts(rollout: Rollout, parts: list[tuple[slice, RolloutPart]]) -> None:
    """Fill a rollout on a CPU that has begun with the parts of all its envs: each with the rows that it has."""
    for rows, part in parts:
        _store(rollout, rows, part, slice(None))
    _store_finals(rollout, [(rows, part) for rows, part in parts if "final_steps" in part])
    rollout.advance(slice(0, rollout.envs), rollout.length)


def _store(rollout: Rollout, places: Any, part: RolloutPart, rows: Any) -> None:
    """Rows of a part, at their places among the envs."""
    for k, (leaf, last) in enumerate(zip(rollout.observations, rollout.last, strict=True)):
        leaf.numpy()[:, places] = part[f"observation{k}"][:, rows]
        last.numpy()[places] = part[f"last{k}"][rows]
    for name in (*NAMES, "log_probs"):
        if name in part:
            getattr(rollout, name).numpy()[:, places] = part[name][:, rows]
    if "masks" in part:
        for t, mask in enumerate(part["masks"]):
            rollout.store_mask(t, places, np.array(mask[rows]))


def _store_finals(rollout: Rollout, parts: list[tuple[slice, RolloutPart]]) -> None:
    """In the order in which one process has them: by step, and then by env."""
    if not parts:
        return
    steps = np.concatenate([part["final_steps"] for _, part in parts])
    envs = np.concatenate([part["final_envs"] + rows.start for rows, part in parts])
    leaves = [np.concatenate([part[f"final_leaf{k}"] for _, part in parts]) for k in range(len(rollout.observations))]
    order = np.lexsort((envs, steps))
    steps, envs, leaves = steps[order], envs[order], [leaf[order] for leaf in leaves]
    for t in np.unique(steps):
        chosen = slice(*np.searchsorted(steps, [t, t + 1]))
        rollout.finals.append(
            (int(t), torch.from_numpy(envs[chosen]), [torch.from_numpy(leaf[chosen]) for leaf in leaves])
        )


# --- rows as they come: each is the steps of one env, whichever it is -------------------------------------------------


@dataclass
class WaitingRows:
    """Rows of a part that were not placed yet."""

    part: RolloutPart
    envs: np.ndarray  # the number of each row's env among all
    version: int  # of the weights that acted
    first: int = 0  # of those that wait

    @property
    def count(self) -> int:
        return len(self.envs) - self.first


class RowFiller:
    """Fills a learner's rollout on a CPU. An env's row goes to its own place if that is free: rewards are normalised
    with what is known of the env there."""

    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout
        self._free = np.ones(rollout.envs, bool)
        if rollout.log_probs is None:
            rollout.log_probs = rollout.new_array()

    @property
    def is_full(self) -> bool:
        return not self._free.any()

    def place(self, waiting: WaitingRows) -> int:
        """As many of these rows as there is room for; returns how many."""
        count = min(waiting.count, int(self._free.sum()))
        rows = np.arange(waiting.first, waiting.first + count)
        places = self._places(waiting.envs[rows])
        _store(self._rollout, places, waiting.part, rows)
        if "final_steps" in waiting.part:
            self._store_finals(places, rows, waiting.part)
        waiting.first += count
        self._free[places] = False
        if self.is_full:
            self._rollout.advance(slice(0, self._rollout.envs), self._rollout.length)
        return count

    def _places(self, envs: np.ndarray) -> np.ndarray:
        """The places of envs: their own, or others that are free."""
        own = self._free[envs]
        free = self._free.copy()
        free[envs[own]] = False
        places = envs.copy()
        places[~own] = np.flatnonzero(free)[: np.count_nonzero(~own)]
        return places

    def _store_finals(self, places: np.ndarray, rows: np.ndarray, part: RolloutPart) -> None:
        """The last observations of truncated episodes of these rows."""
        rollout, envs = self._rollout, part["final_envs"]
        chosen = np.flatnonzero((envs >= rows[0]) & (envs <= rows[-1])) if len(rows) else np.zeros(0, int)
        for k in chosen:
            place = torch.tensor([places[envs[k] - rows[0]]])
            leaves = [torch.from_numpy(np.array(part[f"final_leaf{n}"][k : k + 1])) for n in range(len(rollout.last))]
            rollout.finals.append((int(part["final_steps"][k]), place, leaves))


# --- off-policy -------------------------------------------------------------------------------------------------------

FLAGS = ("rewards", "terminated", "truncated")
StepChunk = dict[str, Any]  # arrays [steps, rows, ...] by name


class ChunkWriter:
    """Keeps the steps of a learner that acts, but does not learn."""

    def __init__(self, learner: Learner) -> None:
        self._actions: list[np.ndarray] = []
        self._steps: list[StepBatch] = []
        self._first: Any = None
        learner.execution.store_step = self._store

    def begin(self, observations: Any) -> None:
        """The next step is made from these observations."""
        self._first = _map(np.array, observations)

    def _store(self, rows: slice, leaves: Any, actions: Tensor) -> None:
        self._actions.append(actions.cpu().numpy().copy())

    def add(self, step: StepBatch) -> None:
        """What the envs returned; it may lie in arrays that are used again."""
        finals = (
            None if step.finals is None else (np.array(step.finals[0]), [_map(np.array, x) for x in step.finals[1]])
        )
        rewards, terminated, truncated = (np.array(getattr(step, name)) for name in FLAGS)
        mask = None if step.mask is None else np.array(step.mask)
        self._steps.append(StepBatch(_map(np.array, step.observations), rewards, terminated, truncated, finals, mask))

    def take(self) -> StepChunk:
        """All steps since the last call."""
        steps, actions = self._steps, self._actions
        self._steps, self._actions = [], []
        chunk: StepChunk = {"first": self._first, "actions": np.stack(actions)}
        chunk["observations"] = _stacked([step.observations for step in steps])
        chunk |= {name: np.stack([getattr(step, name) for step in steps]) for name in FLAGS}
        if steps[0].mask is not None:
            chunk["masks"] = np.stack([step.mask for step in steps])
        chunk["finals"] = {t: step.finals for t, step in enumerate(steps) if step.finals is not None}
        self._first = _map(itemgetter(-1), chunk["observations"])
        return chunk


def recorded(learner: Learner, rows: slice, chunk: StepChunk) -> Iterator[int]:
    """Record the steps of these rows one after the other; yields after each, so that the learner can learn there."""
    before = chunk["first"]
    for t, actions in enumerate(chunk["actions"]):
        after = _map(itemgetter(t), chunk["observations"])
        learner.store_step(rows, split(learner.leaves, before, learner.device), _tensor(actions, learner))
        mask = chunk["masks"][t] if "masks" in chunk else None
        rewards, terminated, truncated = (np.array(chunk[name][t]) for name in FLAGS)
        learner.record(rows, StepBatch(after, rewards, terminated, truncated, chunk["finals"].get(t), mask))
        before = after
        yield t


def _tensor(array: np.ndarray, learner: Learner) -> Tensor:
    return torch.from_numpy(np.array(array)).to(learner.device)


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Of every array in nested dicts and tuples."""
    if isinstance(tree, dict):
        return {key: _map(function, part) for key, part in tree.items()}
    return tuple(_map(function, part) for part in tree) if isinstance(tree, tuple) else function(tree)


def _stacked(trees: list[Any]) -> Any:
    first = trees[0]
    if isinstance(first, dict):
        return {key: _stacked([tree[key] for tree in trees]) for key in first}
    if isinstance(first, tuple):
        return tuple(_stacked([tree[k] for tree in trees]) for k in range(len(first)))
    return np.stack(trees)
