"""Groups: parts of an engine that are stepped in turns, so that a policy works on one while the envs step another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space

from rookery.engine.segments import Segment
from rookery.errors import CallPending, NoCallPending


class SegmentedEngine(Protocol):
    """What a group needs of its engine."""

    segments: list[Segment]
    single_observation_space: gym.Space
    single_action_space: gym.Space

    def require_usable(self, what: str) -> None: ...

    def is_in_flight(self, segment: Segment) -> bool: ...

    def send_segments(
        self, segments: Sequence[Segment], actions: Any, rows: slice | np.ndarray, count: int
    ) -> None: ...

    def receive_segments(self, segments: Sequence[Segment], rows: slice | np.ndarray, count: int) -> tuple: ...


class Group:
    """Envs [start, stop) of an engine made with `groups=...`. Reset the engine as a whole, then take turns:

    >>> import numpy as np, rookery
    >>> envs = rookery.make_vec("CartPole-v1", num_envs=4, groups=2, backend="serial")
    >>> observations, _ = envs.reset(seed=1)
    >>> first, second = envs.groups
    >>> first.send(np.zeros(2, int))
    >>> second.send(np.ones(2, int))  # while these step, a policy could compute actions for the first group
    >>> observations, rewards, terminated, truncated, infos = first.recv()
    >>> observations.shape
    (2, 4)
    >>> _ = second.recv()
    >>> envs.close()
    """

    def __init__(self, engine: SegmentedEngine, start: int, stop: int) -> None:
        self._engine, self.start, self.stop = engine, start, stop
        self.num_envs = stop - start
        self.rows = slice(start, stop)
        self.segments = [s for s in engine.segments if start <= s.low and s.high <= stop]
        self.observation_space = batch_space(engine.single_observation_space, self.num_envs)
        self.action_space = batch_space(engine.single_action_space, self.num_envs)

    def send(self, actions: Any) -> None:
        """Start stepping this group."""
        self._engine.require_usable("send")
        if any(self._engine.is_in_flight(segment) for segment in self.segments):
            raise CallPending(f"envs {self.start} to {self.stop - 1} are being stepped already; call recv() first")
        self._engine.send_segments(self.segments, actions, self.rows, self.num_envs)

    def recv(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Wait for this group's results."""
        if not all(self._engine.is_in_flight(segment) for segment in self.segments):
            raise NoCallPending(f"envs {self.start} to {self.stop - 1} are not being stepped; call send(actions) first")
        return self._engine.receive_segments(self.segments, self.rows, self.num_envs)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """`send` and `recv` in one."""
        self.send(actions)
        return self.recv()

    def __repr__(self) -> str:
        return f"Group(envs {self.start} to {self.stop - 1})"
