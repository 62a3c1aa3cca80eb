"""The most that this machine can do with MuJoCo: threads that call `mj_step` as envs would, and nothing else."""

from __future__ import annotations

import threading
import time
from functools import lru_cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import carray, types
from numba.extending import intrinsic

import rookery
from measure import SLICE
from rookery.worlds.mujoco.mujoco_library import load

ENVS, STEPS, BLOCK = 16, 1024, 32


class Recording(NamedTuple):
    """Steps of envs with random actions: replayed, they are the same calls of `mj_step`, to the last bit."""

    world: Any
    controls: np.ndarray  # (steps, actuators)
    episodes: np.ndarray  # (steps,) the number of the episode that begins here, or -1
    starts: np.ndarray  # (episodes, numbers of a state)


@lru_cache
def record(task: str) -> Recording:
    """1,024 steps of each of 16 envs; those that only start an episode are omitted."""
    envs = rookery.make_vec(f"rookery/{task}-v5", ENVS, backend="kernel")
    space, states = envs.single_action_space, envs.arena.states
    space.seed(0)
    envs.reset(seed=0)
    lanes: list[list[tuple[np.ndarray, int]]] = [[] for _ in range(ENVS)]
    starts = list(states["physics"].copy())
    begins, ended = list(range(ENVS)), np.zeros(ENVS, bool)
    for _ in range(STEPS):
        actions = np.array([space.sample() for _ in range(ENVS)])
        _, _, terminated, truncated, _ = envs.step(actions)
        for env in range(ENVS):
            if ended[env]:
                begins[env] = len(starts)
                starts.append(states["physics"][env].copy())
            else:
                lanes[env].append((actions[env].astype(float), begins[env]))
                begins[env] = -1
        ended = terminated | truncated
    envs.close()
    steps = [step for lane in lanes for step in lane]
    controls, episodes = (np.array(column) for column in zip(*steps, strict=True))
    return Recording(envs.world, controls, episodes, np.array(starts))


class LoneThreads:
    """Threads that know nothing of each other, each with envs of its own, and with its own parts of a recording. With
    several envs, a thread steps one after the other, as a world's threads do: their data may not fit its caches."""

    def __init__(self, task: str, count: int, envs: int = 1) -> None:
        self._recording, self._count, self._envs = record(task), count, envs
        package, model = load().package, self._recording.world.model
        self._data = [[package.MjData(model) for _ in range(envs)] for _ in range(count)]
        begins = np.flatnonzero(self._recording.episodes >= 0)
        parts = np.arange(count * envs) * len(begins) // (count * envs)
        self._at = begins[parts].reshape(count, envs)
        self._replay(0)  # compiles

    def measure(self, seconds: float = SLICE) -> float:
        """Env steps per second of all of them together."""
        made = [0.0] * self._count
        threads = [threading.Thread(target=self._work, args=(made, k, seconds)) for k in range(self._count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(made)

    def _work(self, made: list[float], place: int, seconds: float) -> None:
        steps, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            steps += self._replay(place)
        made[place] = steps / elapsed

    def _replay(self, place: int) -> int:
        (world, controls, episodes, starts), data = self._recording, self._data[place]
        rounds = max(1, BLOCK // self._envs)
        addresses = np.array([[each._address, each.ctrl.ctypes.data] for each in data], np.uint64)
        model, calls = np.uint64(world.model._address), (world.frame_skip, world.state_kind, rounds)
        _replay(model, addresses, controls, episodes, starts, self._at[place], *calls)
        return rounds * self._envs


@intrinsic
def _numbers_at(context: Any, address: Any) -> Any:
    """An address as a pointer to numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float64)(types.uint64), generate


_step, _set_state = load().functions["mj_step"], load().functions["mj_setState"]


@numba.njit
def begin_step(
    env: int, model: int, addresses: Any, controls: Any, episodes: Any, starts: Any, at: Any, skip: int, kind: int
) -> None:
    """The next recorded step of an env, without its last `mj_step`."""
    data, k = addresses[env, 0], at[env]
    if episodes[k] >= 0:
        _set_state(model, data, starts[episodes[k]].ctypes, kind)
    ctrl = carray(_numbers_at(addresses[env, 1]), controls.shape[1])
    for j in range(controls.shape[1]):
        ctrl[j] = controls[k, j]
    for _ in range(skip - 1):
        _step(model, data)
    at[env] = (k + 1) % len(controls)


@numba.njit
def finish_step(env: int, model: int, addresses: Any) -> None:
    """The last `mj_step` of a step that has begun."""
    _step(model, addresses[env, 0])


@numba.njit(nogil=True)
def _replay(
    model: int, addresses: Any, controls: Any, episodes: Any, starts: Any, at: Any, skip: int, kind: int, rounds: int
) -> None:
    for _ in range(rounds):
        for env in range(len(addresses)):
            begin_step(env, model, addresses, controls, episodes, starts, at, skip, kind)
            finish_step(env, model, addresses)
