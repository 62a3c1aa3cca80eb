"""The arrays of a batch of kernel envs, and the plan: the list of their addresses and shapes for compiled code."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from typing import Any

import numpy as np

from rookery.kernel.batch_loop import EPISODES_KEPT
from rookery.kernel.env_loop import COLUMNS, OVER, RUNNING
from rookery.kernel.observation_form import array_form, limits, new_observations, observation_limits
from rookery.kernel.tables import shrinks
from rookery.kernel.world import KernelWorld
from rookery.kernel.world_calls import mask_size

EPISODE = np.dtype(
    [("batch_step", "i8"), ("row", "i8"), ("total", "f8"), ("length", "i8"), ("nanoseconds", "i8")], align=True
)
# Written by the CPU loop beside the columns. `copies` has no rows, unless a step also copies what is observed.
EPISODE_STATS = ("started", "episodes", "counts", "calls", "copies")
CALL_WORDS = 16  # of `calls`, a row for each slot: more than a thread's call needs, so that no two share a cache line
EpisodeStats: Any = namedtuple("EpisodeStats", EPISODE_STATS)  # type: ignore[misc]
# Numbers at the start of a plan: those that are passed to the loop, and those that can stop it (see interrupt.py).
HEADER = ("num_envs", "per_env", "mode", "strict", "batch_step", "clock")
PLAN_WORDS = (*HEADER, "timeout", "next_poll", "stop")
CONTINUE, TIMED_OUT, INTERRUPTED = 0, 1, 2  # values of `stop`

PER_ENV = (
    "states", "memory", "params", "next_params", "staged", "info_mask", "reset_mask", "actions", "flat_actions",
    "faults", "failures", "started",
)  # fmt: skip
PER_ROW = (
    "infos", "final_infos", "observations", "flat", "finals", "flat_finals", "rewards", "terminated", "truncated",
    "masks", "final_masks", "last_returns", "last_lengths", "window_starts", "final_starts",
)  # fmt: skip
NO_TABLES = {"nothing": np.zeros(1)}


class EnvArrays:
    """States, actions, results and episode statistics of `num_envs` envs of a world.

    `slots` is the number of threads: each has its own scratch record and its own list of finished episodes. Arrays in
    `given` are used instead of new ones.
    """

    def __init__(
        self, world: KernelWorld, num_envs: int, slots: int = 1, given: Mapping[str, np.ndarray] | None = None
    ) -> None:
        self.world, self.num_envs, self.slots = world, num_envs, slots
        self.rows = num_envs * world.num_agents
        self.arrays: dict[str, np.ndarray] = {**self._new_arrays(), **(given or {})}
        self._scratch_owner = world.fill_scratch(self.arrays["scratch"])
        self._flatten()
        self.use_tables_of(world)
        self.states["stage"] = OVER

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self.__dict__["arrays"][name]
        except KeyError:
            raise AttributeError(name) from None

    def use_tables_of(self, world: KernelWorld) -> None:
        """Take the tables of a world, which is this one, maybe with other arrays."""
        self.world = world
        self.tables = {name: read_only(table) for name, table in world.tables.items()} or NO_TABLES
        self.tables_type = tables_type(tuple(self.tables))

    def replace_tables(self, world: KernelWorld) -> None:
        """Take the tables of a world with other arrays. If one became shorter, running episodes cannot continue."""
        if shrinks(self.tables, world.tables):
            self.states["stage"][self.states["stage"] == RUNNING] = OVER
        self.use_tables_of(world)

    def _flatten(self) -> None:
        for name, flat in (("observations", "flat"), ("finals", "flat_finals"), ("actions", "flat_actions")):
            array = self.arrays[name]
            self.arrays[flat] = array.reshape(len(array), math.prod(array.shape[1:]))
        self.arrays["copies"] = np.empty_like(self.arrays["flat"][:0])

    def _new_arrays(self) -> dict[str, np.ndarray]:
        world, n, rows = self.world, self.num_envs, self.rows
        low, high = observation_limits(world.observation_space)
        action_low, action_high = limits(world.action_space, any_number=world.clips_actions)
        action_shape, action_dtype = array_form(world.action_space)
        together = () if world.num_agents == 1 else (world.num_agents,)
        return {
            "states": np.zeros(n, world.state_dtype),
            "memory": np.zeros((n, world.memory), np.uint8),
            "params": world.params_record(),
            "next_params": world.params_record(),
            "staged": np.zeros(n, np.uint8),
            "scratch": np.zeros(self.slots, world.scratch_dtype),
            "infos": np.zeros(rows, world.info_dtype),
            "final_infos": np.zeros(rows, world.info_dtype),
            "info_mask": np.zeros(n, np.bool_),
            "reset_mask": np.zeros(n, np.bool_),
            "actions": np.zeros((n, *together, *action_shape), action_dtype),
            "observations": new_observations(world.observation_space, rows),
            "finals": new_observations(world.observation_space, rows),
            "low": low,
            "high": high,
            "action_low": np.tile(action_low, world.num_agents),
            "action_high": np.tile(action_high, world.num_agents),
            "rewards": np.zeros(rows),
            "terminated": np.zeros(rows, np.bool_),
            "truncated": np.zeros(rows, np.bool_),
            "masks": np.zeros((rows, mask_size(world)), np.int8),
            "final_masks": np.zeros((rows, mask_size(world)), np.int8),
            "last_returns": np.zeros(rows),
            "last_lengths": np.zeros(rows, np.int64),
            "faults": np.zeros(n, np.uint8),
            "failures": np.zeros((n, 3), np.int64),
            "window_starts": np.zeros(rows, np.int64),
            "final_starts": np.zeros(rows, np.int64),
            "started": np.zeros(n, np.int64),
            "episodes": np.zeros((self.slots, EPISODES_KEPT), EPISODE),
            "counts": np.zeros(self.slots, np.int64),
            "calls": np.zeros((self.slots, CALL_WORDS), np.int64),
        }

    def spread_params(self) -> None:
        """Give every env its own copy of the parameters."""
        if len(self.params) != self.num_envs:
            self.arrays["params"] = np.repeat(self.params, self.num_envs)

    @property
    def per_env(self) -> int:
        return int(len(self.params) == self.num_envs > 1)

    def view(self, env: int) -> EnvArrays:
        """The arrays of one env, which share the memory of these."""
        part = EnvArrays.__new__(EnvArrays)
        part.world, part.num_envs, part.slots, part.rows = self.world, 1, self.slots, self.world.num_agents
        part.tables, part.tables_type, part._scratch_owner = self.tables, self.tables_type, self._scratch_owner
        per_row, agents = self.rows, self.world.num_agents
        part.arrays = {}
        for name, array in self.arrays.items():
            if name in PER_ENV and len(array) == self.num_envs:
                array = array[env : env + 1]
            elif name in PER_ROW and len(array) == per_row:
                array = array[env * agents : (env + 1) * agents]
            part.arrays[name] = array
        return part

    def copy(self) -> EnvArrays:
        """A copy in new memory."""
        other = copy(self)
        other.arrays = {name: array.copy() for name, array in self.arrays.items()}
        other._flatten()
        return other

    def parts(self) -> list[np.ndarray]:
        """All arrays, in the order of the plan."""
        return [*(self.arrays[name] for name in (*COLUMNS, *EPISODE_STATS)), *self.tables.values()]

    def plan(self) -> np.ndarray:
        """PLAN_WORDS, then the address and the shape of each array. Valid until an array is replaced."""
        numbers = [self.num_envs, self.per_env] + [0] * (len(PLAN_WORDS) - 2)
        for part in self.parts():
            assert part.flags.c_contiguous
            numbers += [part.ctypes.data, *part.shape]
        return np.array(numbers, np.int64)

    def take_episodes(self) -> np.ndarray:
        """Episodes that finished since the last call, oldest first."""
        taken = [ring[: min(count, EPISODES_KEPT)] for ring, count in zip(self.episodes, self.counts, strict=True)]
        episodes = np.concatenate(taken)
        self.counts[:] = 0
        return episodes[np.lexsort((episodes["row"], episodes["batch_step"]))]


def read_only(array: Any) -> np.ndarray:
    """A read-only view."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@lru_cache
def tables_type(names: tuple[str, ...]) -> Any:
    """The type of the object whose attributes are the tables."""
    return namedtuple("Tables", names)
