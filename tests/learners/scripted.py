"""Envs that answer from a script, whatever is done to them: any two learners can be shown exactly the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from rookery.learners.algorithms.ppo import PPO
from rookery.learners.learner import StepBatch


class Scene(NamedTuple):
    """What all envs say to one step. `finals` holds an observation for every env, used where an episode ended."""

    observations: Any
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    finals: list[Any]
    mask: np.ndarray | None


class Script:
    """Random observations, rewards, masks and ends of episodes, by a seed."""

    def __init__(
        self, space: spaces.Space, num_envs: int, seed: int = 0, choices: tuple[int, ...] = (), ends: float = 0.2
    ) -> None:
        self.num_envs, self.choices, self.ends = num_envs, choices, ends
        self._random = np.random.default_rng(seed)
        self._single, self._batch = space, batch_space(space, num_envs)
        self._single.seed(seed)
        self._batch.seed(seed)
        self.observations, self.mask = self._batch.sample(), self._mask()
        self.history: list[tuple[Any, Scene]] = []  # what was seen, and what came of it

    def step(self) -> Scene:
        """The next answer, after which `observations` and `mask` are those to act upon."""
        rewards = self._random.normal(1.0, 2.0, self.num_envs)
        terminated, truncated = (self._random.random(self.num_envs) < self.ends / 2 for _ in range(2))
        finals = [self._single.sample() for _ in range(self.num_envs)]
        seen = self.observations
        self.observations, self.mask = self._batch.sample(), self._mask()
        answer = Scene(self.observations, rewards, terminated, truncated, finals, self.mask)
        self.history.append((seen, answer))
        return answer

    def _mask(self) -> np.ndarray | None:
        """At least one of each choice is allowed."""
        if not self.choices:
            return None
        parts = []
        for size in self.choices:
            part = self._random.random((self.num_envs, size)) < 0.5
            part[np.arange(self.num_envs), self._random.integers(size, size=self.num_envs)] = True
            parts.append(part)
        return np.concatenate(parts, 1)


def rows_of(batch: Any, rows: slice) -> Any:
    """Some rows of a batch of any structure."""
    if isinstance(batch, dict):
        return {key: rows_of(part, rows) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(rows_of(part, rows) for part in batch)
    return None if batch is None else batch[rows]


def joined(parts: list[Any]) -> Any:
    """Batches of any structure, one after another."""
    if isinstance(parts[0], dict):
        return {key: joined([part[key] for part in parts]) for key in parts[0]}
    if isinstance(parts[0], tuple):
        return tuple(joined(list(some)) for some in zip(*parts, strict=True))
    return np.concatenate(parts)


def each_row(batch: Any, count: int) -> list[Any]:
    """A batch of any structure, row by row."""
    return [rows_of(batch, k) for k in range(count)]  # type: ignore[arg-type]


def arrays_of(batch: Any) -> list[np.ndarray]:
    """The arrays of any structure."""
    if not isinstance(batch, (dict, tuple)):
        return [batch]
    parts = batch.values() if isinstance(batch, dict) else batch
    return [array for part in parts for array in arrays_of(part)]


def tell(learner: PPO, answer: Scene, rows: slice) -> None:
    """Record the part of an answer that concerns some rows."""
    terminated, truncated = answer.terminated[rows], answer.truncated[rows]
    places = np.flatnonzero(terminated | truncated)
    finals = (places, [answer.finals[rows.start + k] for k in places]) if len(places) else None
    mask = rows_of(answer.mask, rows)
    told = StepBatch(rows_of(answer.observations, rows), answer.rewards[rows], terminated, truncated, finals, mask)
    learner.record(rows, told)


def play(learner: PPO, script: Script, steps: int, groups: list[slice] | None = None) -> list[Any]:
    """Step all envs, group by group; returns the actions of all envs at each step."""
    groups, done = groups or [slice(0, script.num_envs)], []
    for _ in range(steps):
        seen, mask = script.observations, script.mask
        done.append(joined([learner.explore(rows_of(seen, g), g, rows_of(mask, g)) for g in groups]))
        answer = script.step()
        for group in groups:
            tell(learner, answer, group)
    return done
