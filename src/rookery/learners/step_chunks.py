"""Steps of an off-policy learner's envs that were made elsewhere: kept there as arrays, recorded where it learns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.learner import StepBatch
from rookery.learners.observations import split
from rookery.learners.offpolicy import OffPolicy

FLAGS = ("rewards", "terminated", "truncated")
StepChunk = dict[str, Any]  # arrays [steps, rows, ...] by name


class ChunkWriter:
    """Keeps the steps of a learner that acts, but does not learn."""

    def __init__(self, learner: OffPolicy) -> None:
        self._actions: list[np.ndarray] = []
        self._steps: list[StepBatch] = []
        self._first: Any = None
        learner.store_step = self._store  # type: ignore[method-assign]

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


def recorded(learner: OffPolicy, rows: slice, chunk: StepChunk) -> Iterator[int]:
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


def _tensor(array: np.ndarray, learner: OffPolicy) -> Tensor:
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
