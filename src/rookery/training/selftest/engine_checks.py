"""Checks of the engine: compiled code equals plain Python, worker processes equal one process, nothing is left."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import gymnasium
import numpy as np
import psutil

from rookery.engine import loops
from rookery.engine.make_vec import make_vec
from rookery.training.commands import start_command
from rookery.training.selftest.outcome import CheckFailed, NotChecked

NUM_ENVS, STEPS = 4, 500
PLAIN = "from rookery.training.selftest.engine_checks import trajectory; print(trajectory('serial'))"
SECONDS = 120


def check_loops() -> str:
    """The engine's C loops step as the same loops in Python do."""
    if not loops.COMPILED:
        why = "ROOKERY_PLAIN is set" if loops.compiled() else "they were not compiled: rookery doctor says why"
        raise NotChecked(f"{why}; the engine works, but short steps are 10 % slower")
    with start_command(code=PLAIN, variables={"ROOKERY_PLAIN": "1"}, stdout=-1, stderr=-1) as process:
        out, err = process.communicate(timeout=SECONDS)
    if process.returncode:
        raise CheckFailed(err.decode(errors="replace").strip()[-500:])
    _equal(trajectory("serial"), out.decode().strip(), "the compiled loops and those in Python")
    return f"{STEPS} steps of {NUM_ENVS} envs are the same, bit for bit"


def check_workers() -> str:
    """Worker processes step as one process does, and leave neither processes nor shared memory."""
    before = _children()
    _equal(trajectory("process"), trajectory("serial"), "worker processes and one process")
    left = _children() - before
    if left:
        raise CheckFailed(f"these processes remain after close(): {sorted(left)}")
    if _shared_blocks():
        raise CheckFailed("shared memory remains after close()")
    return "the same numbers as in one process, bit for bit; processes and shared memory are gone after close()"


def check_kernel() -> str:
    """A compiled world steps as its functions in plain Python do."""
    from rookery.kernel.kernel_env import KernelEnv
    from rookery.worlds.classic import CartPole

    compiled, plain = (KernelEnv(CartPole, plain=plain) for plain in (False, True))
    rng = np.random.default_rng(1)
    over = True
    for step in range(STEPS):
        if over:
            for env in (compiled, plain):
                env.reset(seed=step)
        action = int(rng.integers(2))
        (one, *others), (two, *theirs) = (env.step(action) for env in (compiled, plain))
        if one.tobytes() != two.tobytes() or others[:3] != theirs[:3]:
            raise CheckFailed(f"they differ at step {step}: {one} and {two}")
        over = bool(others[1] or others[2])
    return f"{STEPS} steps are the same, bit for bit"


def trajectory(backend: str) -> str:
    """A hash of everything that some steps return."""
    envs = make_vec(_cartpole, NUM_ENVS, backend, 2 if backend == "process" else None)
    try:
        digest = hashlib.sha256(envs.reset(seed=7)[0].tobytes())
        rng = np.random.default_rng(7)
        for _ in range(STEPS):
            for array in envs.step(rng.integers(2, size=NUM_ENVS))[:4]:
                digest.update(np.ascontiguousarray(array).tobytes())
    finally:
        envs.close()
    return digest.hexdigest()


def _cartpole() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


def _equal(one: str, other: str, what: str) -> None:
    if one != other:
        raise CheckFailed(f"{what} give different numbers")


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def _shared_blocks() -> list[str]:
    """The engine's shared memory that this process still holds; Linux only."""
    if sys.platform != "linux":
        return []
    files = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [name for name in files if name.startswith("/memfd:rookery")]
