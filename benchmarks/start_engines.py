"""How long engines take from `make_vec` to the first reset, beside Gymnasium's AsyncVectorEnv; and the vector suites of
Gymnasium and Stable-Baselines3 on rookery's engine, beside their own. Rows of `benchmarks/start.py`.

Each figure comes from a new process, as the first engine of a process takes longest. The suites are run from checkouts
of these projects with their classes of vector envs replaced by rookery's; only the words of messages are not compared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row

LATER = 7  # engines after the first
TORCH_ENV = """
import gymnasium as gym
import torch


class TorchEnv(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return torch.zeros(3).numpy(), {}

    def step(self, action):
        return torch.zeros(3).numpy(), 0.0, False, False, {}
"""


def engine_rows(_: argparse.Namespace) -> Iterable[Row]:
    """CartPole, in processes."""
    few, many = in_new_process("cartpole", 8), in_new_process("cartpole", 64)
    beside = in_new_process("async", 8)
    theirs = f"AsyncVectorEnv {seconds(beside[0])}, later {seconds(median(beside[1:]))}"
    yield row("8 x CartPole, first engine", few[0], theirs, 0.5)
    yield row("8 x CartPole, later engines", median(few[1:]), theirs, 0.10)
    yield row("64 x CartPole, later engines", median(many[1:]), theirs, 0.15)


def torch_rows(_: argparse.Namespace) -> Iterable[Row]:
    """An env whose module imports torch."""
    found = in_new_process("torch", 8)
    yield row("env that imports torch, second engine", found[1], f"first engine {seconds(found[0])}", 0.3)


def row(name: str, value: float, theirs: str, most: float) -> Row:
    return Row(name, seconds(value), theirs, value, most, " s", most=True)


def seconds(value: float) -> str:
    return f"{value:.3f} s"


def in_new_process(kind: str, count: int) -> list[float]:
    """Seconds of each engine of a process, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "torch_env.py").write_text(TORCH_ENV)
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, folder]), "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, __file__, kind, str(count)]
        done = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def start_engines(kind: str, count: int) -> list[float]:
    """In the new process: start engines, one after the other."""
    import gymnasium as gym

    import rookery

    functions = [lambda: gym.make("CartPole-v1")] * count
    if kind == "torch":
        from torch_env import TorchEnv

        functions = [TorchEnv] * count
    found = []
    for _ in range(1 + LATER):
        start = time.perf_counter()
        if kind == "async":
            envs = gym.vector.AsyncVectorEnv(functions)
        else:
            envs = rookery.make_vec(functions, backend="process")
        envs.reset(seed=1)
        found.append(time.perf_counter() - start)
        envs.close()
    return found


# --- the suites of others ---------------------------------------------------------------------------------------------

GYMNASIUM = """
import functools

import gymnasium
import pytest
from gymnasium import vector

import rookery


def on(backend):
    class OnRookery(type):
        def __instancecheck__(cls, envs):
            return isinstance(envs, rookery.Engine)

    def build(cls, env_fns, copy=True, observation_mode="same", autoreset_mode=vector.AutoresetMode.NEXT_STEP,
              shared_memory=True, context=None, **others):
        if backend == "process":
            others |= {"shared_memory": shared_memory, "start_method": context}
        return rookery.make_vec(list(env_fns), backend=backend, copy=copy, observation_mode=observation_mode,
                                autoreset_mode=autoreset_mode, **others)

    return OnRookery("VectorEnv", (), {"__new__": build})


vector.AsyncVectorEnv = vector.async_vector_env.AsyncVectorEnv = on("process")
vector.SyncVectorEnv = vector.sync_vector_env.SyncVectorEnv = on("serial")


def without_words(function):
    @functools.wraps(function)
    def changed(*args, **options):
        return function(*args, **{name: value for name, value in options.items() if name != "match"})
    return changed


pytest.raises, pytest.warns = without_words(pytest.raises), without_words(pytest.warns)
"""
SB3 = """
import stable_baselines3.common.vec_env as vec_env
import stable_baselines3.common.vec_env.subproc_vec_env as subproc

import rookery.sb3


class SubprocVecEnv(rookery.sb3.VecEnv):
    def __init__(self, env_fns, start_method=None):
        super().__init__(env_fns, backend="process", start_method=start_method)


vec_env.SubprocVecEnv = subproc.SubprocVecEnv = SubprocVecEnv
"""
WORDS = ("test_async_vector_subenv_error",)  # counts the lines of Gymnasium's own warnings
SLOWER = 2.0  # times the peer's own time


def suite_rows(options: argparse.Namespace) -> Iterable[Row]:
    """Those whose checkouts were named."""
    if options.gymnasium is not None:
        yield from suite("Gymnasium's tests/vector", options.gymnasium, ["tests/vector"], GYMNASIUM)
    if options.sb3 is not None:
        files = sorted(str(file.relative_to(options.sb3)) for file in (options.sb3 / "tests").glob("test_vec_*.py"))
        yield from suite("Stable-Baselines3's VecEnv tests", options.sb3, files, SB3)


def suite(name: str, checkout: Path, tests: list[str], plugin: str) -> Iterable[Row]:
    """Ours must pass what theirs passes, and take no more than SLOWER times as long."""
    theirs, their_failures = run_suite(checkout, tests, None)
    ours, our_failures = run_suite(checkout, tests, plugin)
    only_ours = [test for test in our_failures if test not in their_failures and not test.endswith(WORDS)]
    beside = f"{theirs:.1f} s, {len(their_failures)} failed"
    yield Row(f"{name}: failed only on ours", ", ".join(only_ours) or "none", beside, len(only_ours), 0, "", most=True)
    yield Row(f"{name}: time", f"{ours:.1f} s", beside, ours / theirs, SLOWER, most=True)


def run_suite(checkout: Path, tests: list[str], plugin: str | None) -> tuple[float, list[str]]:
    """Seconds, and the names of tests that failed."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "on_rookery.py").write_text(plugin or "")
        source = str(Path(__file__).resolve().parents[1] / "src")
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, source]), "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "on_rookery", *tests]
        start = time.perf_counter()
        done = subprocess.run(command, cwd=checkout, env=variables, capture_output=True, text=True, check=False)
    if not re.search(r"\d+ passed", done.stdout):
        raise SystemExit(f"the tests in {checkout} could not be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.perf_counter() - start, re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)


ROWS: dict[str, Callable[[argparse.Namespace], Iterable[Row]]] = {
    "engines": engine_rows, "torch": torch_rows, "suites": suite_rows,
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(start_engines(sys.argv[1], int(sys.argv[2]))))
