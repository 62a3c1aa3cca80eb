"""Segments: which worker steps which envs, and which envs are stepped together; groups of them that take turns, so that
a policy works on one while the envs step another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector.utils import batch_space

from rookery.errors import CallPending, NoCallPending, OptionError, UsageError


@dataclass(frozen=True)
class Segment:
    """Envs [low, high), stepped as one by `worker`. Its entry in the batch's `go`, `done` and `status` is `index`."""

    index: int
    worker: int
    low: int
    high: int

    @property
    def rows(self) -> range:
        return range(self.low, self.high)


def group_ranges(num_envs: int, groups: int) -> list[range]:
    return [range(g * num_envs // groups, (g + 1) * num_envs // groups) for g in range(groups)]


def divide(num_envs: int, workers: int, groups: int, per_env: bool) -> list[Segment]:
    """Segments of a new engine. Each group is spread over all workers, so that stepping one group uses every core."""
    segments: list[Segment] = []
    turn = 0  # a group smaller than the number of workers starts where the last one ended
    for rows in group_ranges(num_envs, groups):
        parts = min(workers, len(rows))
        for p in range(parts):
            low, high = rows.start + p * len(rows) // parts, rows.start + (p + 1) * len(rows) // parts
            edges = range(low, high + 1) if per_env else (low, high)
            for a, b in zip(edges, list(edges)[1:], strict=False):
                segments.append(Segment(len(segments), (turn + p) % workers, a, b))
        turn += parts
    return segments


def redivide(segments: Sequence[Segment], num_envs: int, workers: int, per_env: bool) -> list[Segment]:
    """Segments for another number of envs: envs that stay keep their worker, new envs go to the smallest worker."""
    old = max(s.high for s in segments)
    kept = [(s.worker, s.low, min(s.high, num_envs)) for s in segments if s.low < num_envs]
    load = dict.fromkeys(range(workers), 0)
    for worker, low, high in kept:
        load[worker] += high - low
    for row in range(old, num_envs):
        worker = min(load, key=lambda w: (load[w], w))
        load[worker] += 1
        if not per_env and kept and kept[-1][0] == worker and kept[-1][2] == row:
            kept[-1] = (worker, kept[-1][1], row + 1)
        else:
            kept.append((worker, row, row + 1))
    return [Segment(k, worker, low, high) for k, (worker, low, high) in enumerate(kept)]


def rows_of(segments: Iterable[Segment], worker: int) -> list[int]:
    """The envs of one worker."""
    return [row for segment in segments if segment.worker == worker for row in segment.rows]


def rows_by_worker(rows: Sequence[int], segment_of_row: Mapping[int, Segment]) -> dict[int, list[int]]:
    """These envs, under the number of their worker."""
    split: dict[int, list[int]] = {}
    for row in rows:
        if row not in segment_of_row:
            raise OptionError(f"there is no env {row}: there are {len(segment_of_row)}")
        split.setdefault(segment_of_row[row].worker, []).append(row)
    return split


def complete_segments(
    env_ids: np.ndarray, segment_of_row: Mapping[int, Segment], in_flight: Mapping[int, Segment]
) -> list[Segment]:
    """The segments that these envs make up. Without `batch_size`, a segment can only be sent as a whole."""
    ids = env_ids.tolist()
    if len(set(ids)) != len(ids) or not set(ids) <= segment_of_row.keys():
        raise OptionError(f"env_ids should be distinct numbers below {len(segment_of_row)}, got {ids}")
    segments = list({segment_of_row[row].index: segment_of_row[row] for row in ids}.values())
    if sum(len(s.rows) for s in segments) != len(ids):
        raise UsageError(
            f"env_ids={ids} splits envs that are stepped together; make_vec(..., batch_size=...) makes an "
            "engine whose envs can be sent one by one"
        )
    busy = [s for s in segments if s.index in in_flight]
    if busy:
        raise CallPending(f"envs {list(busy[0].rows)} are being stepped already; recv() them first")
    return segments


def format_rows(rows: Sequence[int]) -> str:
    """[0, 1, 2, 5] as '0-2, 5'."""
    parts: list[list[int]] = []
    for row in rows:
        if parts and parts[-1][1] == row - 1:
            parts[-1][1] = row
        else:
            parts.append([row, row])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


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

    def __init__(self, engine: Any, start: int, stop: int) -> None:
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
