"""A Numba that cannot compile kernel worlds: they run as plain Python, after one line of warning."""

from __future__ import annotations

import sys

import numba
import numpy as np
import pytest

import rookery
from kernel.samples import Walker
from rookery.kernel import runner
from rookery.kernel.kernel_env import KernelEnv


@pytest.fixture(autouse=True)
def _ask_again():
    runner.load_native.cache_clear()
    yield
    runner.load_native.cache_clear()


def unknown_version(monkeypatch):
    monkeypatch.setattr(numba, "__version__", "0.99.0")


def missing_part(monkeypatch):
    import numba.core.compiler

    for name in ("native", "native_compiler"):
        monkeypatch.delitem(sys.modules, f"rookery.kernel.{name}", raising=False)
    monkeypatch.delattr(numba.core.compiler, "DefaultPassBuilder")


@pytest.mark.parametrize(
    ("break_numba", "reason"),
    [(unknown_version, "Numba 0.99.0, which rookery was not tested with"), (missing_part, "DefaultPassBuilder")],
)
def test_worlds_run_as_plain_python(break_numba, reason, monkeypatch, caplog):
    """With the same results, in a batch and alone, whatever threads are requested; and one line in all."""
    compiled = steps_of(rookery.make_vec(Walker, 3, backend="kernel"))
    runner.load_native.cache_clear()
    break_numba(monkeypatch)
    caplog.clear()
    envs = rookery.make_vec(Walker, 3, backend="kernel", workers=2)
    assert all(map(np.array_equal, steps_of(envs), compiled))
    env = KernelEnv(Walker)
    env.reset(seed=1)
    env.step(1)
    (line,) = [record.getMessage() for record in caplog.records if "plain Python" in record.getMessage()]
    assert reason in line and "pip install 'numba>=0.60,<0.69'" in line


def steps_of(envs):
    observations = [envs.reset(seed=3)[0]]
    for k in range(30):
        observations.append(envs.step(np.full(3, k % 3))[0].copy())
    envs.close()
    return observations


def test_the_bounds_are_those_of_the_installation():
    """pyproject.toml and the check agree."""
    from pathlib import Path

    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert 'kernel = ["numba>=0.60,<0.69"]' in text
    assert (runner.OLDEST, runner.NEWEST) == ((0, 60), (0, 68))
