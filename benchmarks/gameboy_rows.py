"""One function per row of the Game Boy's table."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any

import gymnasium as gym
import numpy as np
import psutil

import rookery
from engine_rows import Row, ratio_row
from measure import SLICE, Unconnected, in_turns, rate, stepper
from rookery.worlds.gameboy.emulator import Joypad

WORLD = "rookery/GameBoy-v0"
ENVS, WORKERS = 8, 2
KINDS = {"memory": (0.9, "no pixels"), "pixels": (0.85, "pixels")}
MEGABYTE = 1e6


def engine_rows(rounds: int) -> list[Row]:
    """8 emulators in 2 workers, over two processes that each run one and talk to nobody."""
    rows = []
    for kind, (least, name) in KINDS.items():
        options = {"profile": "meadow", "observation": kind}
        ideal = Unconnected(partial(gym.make, WORLD, disable_env_checker=True, **options))
        envs = rookery.make_vec(WORLD, ENVS, backend="process", workers=WORKERS, env_kwargs=options)
        sides = {"ours": stepper(envs, ENVS, 2 * SLICE), "ideal": partial(ideal.measure, 2 * SLICE)}
        found = in_turns(sides, rounds)
        envs.close(), ideal.close()
        rows.append(ratio_row(f"meadow, 8 envs, {name}: over two unconnected", found["ours"], found["ideal"], least))
    return rows


def step_rows(rounds: int) -> list[Row]:
    """One env, over the bare emulator with the same buttons pressed."""
    rows = []
    for kind, (_, name) in KINDS.items():
        env = gym.make(WORLD, disable_env_checker=True, observation=kind, episode_length=10**9).unwrapped
        found = in_turns({"ours": _stepping(env), "bare": _ticking(env, kind != "memory")}, rounds)
        env.close()
        rows.append(ratio_row(f"meadow, one env, {name}: over the bare emulator", found["ours"], found["bare"], 0.85))
    return rows


def _actions(env: Any) -> Iterator[Any]:
    env.reset(seed=1, options={"start": 0})
    return cycle(np.random.default_rng(0).integers(env.action_space.n, size=4096))


def _stepping(env: Any) -> Callable[[], float]:
    def measure() -> float:
        actions = _actions(env)
        return rate(lambda: env.step(next(actions)), 1)

    return measure


def _ticking(env: Any, draw: bool) -> Callable[[], float]:
    """The same emulator at the same work, and nothing else."""

    def measure() -> float:
        actions, pad = _actions(env), Joypad(env.profile.actions, env._emulator, draw)
        return rate(lambda: pad.act(next(actions)), 1)

    return measure


def memory_rows(_: int) -> list[Row]:
    """What 8 emulators in 2 workers take, over two processes with one each."""
    lone = 2 * _lone_memory()
    with_one = rookery.make_vec(WORLD, WORKERS, backend="process", workers=WORKERS)
    with_many = rookery.make_vec(WORLD, ENVS, backend="process", workers=WORKERS)
    used = [_used(envs) for envs in (with_one, with_many)]
    with_one.close(), with_many.close()
    figures = f"{used[1]:.0f} MB", f"{used[0]:.0f} MB with one each, {lone:.0f} MB unconnected"
    return [
        Row("meadow, 8 envs in 2 workers: more than 2 processes' worth", *figures, used[1] - lone, 24, " MB", most=True)
    ]


def _used(envs: Any) -> float:
    """Private memory of the workers, after all envs have been at work."""
    envs.reset(seed=1)
    for _ in range(50):
        envs.step(envs.action_space.sample())
    time.sleep(0.2)
    return sum(_private(child["pid"]) for child in envs.stats())


LONE = """
import gymnasium, rookery, sys
env = gymnasium.make("rookery/GameBoy-v0", disable_env_checker=True)
env.reset(seed=1)
for _ in range(50):
    env.step(env.action_space.sample())
print("ready", flush=True)
sys.stdin.read()
"""


def _lone_memory() -> float:
    """The same of a process that was started for one env alone."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", LONE], **pipes, env=os.environ) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        used = _private(process.pid)
        process.stdin.close()
    return used


def _private(pid: int) -> float:
    return psutil.Process(pid).memory_full_info().uss / MEGABYTE


def reset_rows(rounds: int) -> list[Row]:
    """A reset from a save state in memory."""
    env = gym.make(WORLD, disable_env_checker=True)
    env.reset(seed=1)
    found = in_turns({"ours": lambda: 1e3 / rate(env.reset, 1)}, rounds)
    env.close()
    taken = float(np.median(found["ours"]))
    return [Row("meadow: a reset by save state", f"{taken:.1f} ms", "", taken, 15, " ms", most=True)]


ROWS = {"engine": engine_rows, "step": step_rows, "memory": memory_rows, "reset": reset_rows}
