"""Atari games: frames per second beside other vector envs, the same frames as Gymnasium's wrappers, and the replay
buffer.

    python benchmarks/atari.py                # speed: 64 envs, Pong and Breakout
    python benchmarks/atari.py --exact        # 5,000 steps of five games against AtariPreprocessing
    python benchmarks/atari.py --replay       # frames stored once beside whole stacks: memory and speed

What is not installed (cv2 for Gymnasium's wrappers, envpool) has no row. All rows of a game are measured in turns, and
the best of three rounds counts.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

import rookery
from rookery.learners.cpu_threads import keep_memory
from rookery.learners.observations import leaves_of
from rookery.learners.plain_spaces import StackedBox
from rookery.learners.replay_buffer import NStepBuffer, ReplayBuffer

GAMES = ("Pong", "Breakout")
EXACT_GAMES = ("Breakout", "Pong", "SpaceInvaders", "Qbert", "BeamRider")
SKIP, ROUNDS = 4, 3
SIZES = (32, 128, 256)  # of batches


def wrapped(world: str) -> gym.Env:
    """Gymnasium's env in Gymnasium's wrappers."""
    gym.register_envs(ale_py)
    env = gym.make(world, frameskip=1, disable_env_checker=True)
    return gym.wrappers.FrameStackObservation(gym.wrappers.AtariPreprocessing(env), 4)


# --- speed ------------------------------------------------------------------------------------------------------------


def makers(game: str, num_envs: int, cores: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Vector envs of a game by name, with all cores."""
    world = f"ALE/{game}-v5"
    yield "rookery", lambda: rookery.make_vec(world, num_envs, backend="process", workers=cores, copy=False)
    vector = ale_py.vector_env.AtariVectorEnv
    options: dict[str, Any] = {"repeat_action_probability": 0.25, "reward_clipping": False, "use_fire_reset": False}
    yield "ale-py's vector env", lambda: vector(game.lower(), num_envs, num_threads=cores, **options)
    if find_spec("envpool") is not None:
        yield "EnvPool", lambda: _envpool(game, num_envs, cores)
    if find_spec("cv2") is not None:
        yield "AsyncVectorEnv", lambda: gym.vector.AsyncVectorEnv([lambda: wrapped(world)] * num_envs)


def _envpool(game: str, num_envs: int, cores: int) -> Any:
    import envpool

    options = {"repeat_action_probability": 0.25, "use_fire_reset": False}
    return envpool.make(f"{game}-v5", env_type="gymnasium", num_envs=num_envs, num_threads=cores, seed=1, **options)


def frames_per_second(envs: Any, num_envs: int, seconds: float) -> float:
    """Random actions for a while."""
    random, steps, until = np.random.default_rng(0), 0, time.perf_counter() + seconds
    begun = time.perf_counter()
    while time.perf_counter() < until:
        envs.step(random.integers(0, 4, num_envs).astype(np.int32))
        steps += 1
    return SKIP * num_envs * steps / (time.perf_counter() - begun)


def speed(num_envs: int, cores: int, seconds: float) -> None:
    print(f"{num_envs} envs, {cores} cores, frames/s:")
    for game in GAMES:
        opened = {name: make() for name, make in makers(game, num_envs, cores)}
        for name, envs in opened.items():
            envs.reset() if name == "EnvPool" else envs.reset(seed=1)
        best = dict.fromkeys(opened, 0.0)
        for _ in range(ROUNDS):
            for name, envs in opened.items():
                best[name] = max(best[name], frames_per_second(envs, num_envs, seconds))
        for name, found in best.items():
            ratio = "" if name == "rookery" else f"   rookery is {best['rookery'] / found:.2f} x as fast"
            print(f"  {game:9} {name:20} {found:10,.0f}{ratio}", flush=True)
        for envs in opened.values():
            with suppress(Exception):
                envs.close()


# --- the same frames --------------------------------------------------------------------------------------------------


def exact(steps: int) -> None:
    for game in EXACT_GAMES:
        world = f"ALE/{game}-v5"
        print(f"  {game:14} {steps:,} steps of 8 envs: {_difference(world, steps) or 'identical'}", flush=True)


def _difference(world: str, steps: int) -> str:
    """Where two batches of envs differ first; "" if they do not."""
    ours = rookery.make_vec(world, 8, autoreset_mode="NextStep")
    theirs = gym.vector.SyncVectorEnv([lambda: wrapped(world)] * 8)
    random = np.random.default_rng(0)
    same = np.array_equal(ours.reset(seed=1)[0], theirs.reset(seed=1)[0])
    try:
        for step in range(steps // 8):
            if not same:
                return f"DIFFERENT at step {step}"
            actions = random.integers(0, ours.single_action_space.n, 8)
            pairs = zip(ours.step(actions)[:4], theirs.step(actions)[:4], strict=True)
            same = all(np.array_equal(a, b) for a, b in pairs)
    finally:
        ours.close()
        theirs.close()
    return "" if same else "DIFFERENT at the last step"


# --- the replay buffer ------------------------------------------------------------------------------------------------


class Recorder:
    """A replay buffer that is full of steps of some envs."""

    def __init__(self, space: gym.Space, capacity: int, num_envs: int) -> None:
        leaves, action, device = leaves_of(space), torch.zeros((), dtype=torch.int64), torch.device("cpu")
        self.rows, self.random = slice(0, num_envs), torch.Generator().manual_seed(1)
        self.replay = ReplayBuffer(leaves, action, capacity, device, num_envs)
        self.steps = NStepBuffer(self.replay.leaves, action, 1, 0.99, num_envs, device)
        self.before = torch.zeros(num_envs, 4, 84, 84, dtype=torch.uint8)
        self.ends = np.zeros(num_envs, bool)
        while self.replay.size < capacity:
            self.record(self.next())

    def next(self) -> torch.Tensor:
        frames = torch.randint(255, (len(self.before), 1, 84, 84), generator=self.random, dtype=torch.uint8)
        return torch.cat([self.before[:, 1:], frames], 1)

    def record(self, after: torch.Tensor) -> None:
        self.replay.make_room(len(after), self.steps)
        actions = torch.zeros(len(after), dtype=torch.int64)
        self.steps.store(self.rows, self.replay.pack(self.rows, [self.before]), actions)
        complete = self.steps.complete(self.rows, np.zeros(len(after)), self.ends, self.ends)
        self.replay.add(self.steps, complete, self.replay.pack(self.rows, [after]), None)
        self.before = after

    def sample(self, size: int) -> None:
        self.replay.batch(self.replay.sample_indices(size, self.random))


def replay(capacity: int, num_envs: int) -> None:
    torch.set_num_threads(1)
    keep_memory()  # as a run does
    box = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    both = [Recorder(space, capacity, num_envs) for space in (box, StackedBox.of(box))]
    each = [one.replay.nbytes / capacity for one in both]
    print(f"{capacity:,} transitions of {num_envs} envs, one thread: whole stacks, frames stored once")
    print(f"  bytes per transition {each[0]:10,.0f} {each[1]:10,.0f}   {each[0] / each[1]:.2f} x less")
    works = {"record a step of all": lambda one: partial(one.record, one.next())}
    works |= {f"sample {size}": partial(lambda one, size: partial(one.sample, size), size=size) for size in SIZES}
    for name, work in works.items():
        whole, once = (1e6 * median(times) for times in in_turns(both, work))
        print(f"  {name:20} {whole:7,.0f} us {once:7,.0f} us   {whole / once:.2f} x as fast", flush=True)


def in_turns(both: list[Recorder], work: Callable[[Recorder], Callable[[], None]], rounds: int = 400) -> Any:
    """The times that some work takes with each."""
    times: list[list[float]] = [[] for _ in both]
    for _ in range(rounds):
        for one, taken in zip(both, times, strict=True):
            call = work(one)
            begun = time.perf_counter()
            call()
            taken.append(time.perf_counter() - begun)
    return times


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--transitions", type=int, default=20_000, help="of the replay buffer")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=3.0, help="of a round")
    parser.add_argument("--steps", type=int, default=5000)
    given = parser.parse_args()
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    if given.replay:
        replay(given.transitions, min(given.envs, 16))
    elif given.exact:
        exact(given.steps)
    else:
        speed(given.envs, given.cores, given.seconds)
