"""Runs to be tampered with, and what must still be there afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import rookery
from rookery.training.storage.run_dir import RunDir
from training import runs

ENV = """\
import pathlib
import gymnasium as gym
import numpy as np

pathlib.Path({canary!r}).touch()


class Walk(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {{}}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, bool(self.np_random.integers(9) == 0), {{}}
"""


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run, to be copied. It was opened and continued, so that this is compiled."""
    folder = tmp_path_factory.mktemp("trained")
    path = runs.train("ppo", folder, steps=512).path
    rookery.load(path).act([[0.1] * 4], deterministic=True)
    rookery.resume(Path(shutil.copytree(path, folder / "continued")), steps=576)
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> RunDir:
    """A copy of it, as it might have been downloaded."""
    return RunDir(Path(shutil.copytree(trained, tmp_path / "runs" / "downloaded", symlinks=True)))


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """A file of the user's that no run may touch."""
    file = tmp_path / "home" / "thesis.txt"
    file.parent.mkdir()
    file.write_text("three years of work")
    return file


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """It appears when code has run that should not have."""
    return tmp_path / "canary"


@pytest.fixture
def world(tmp_path: Path, canary: Path) -> str:
    """A world in a file, as a config names it. The canary appears whenever the file is imported."""
    file = tmp_path / f"walk_{tmp_path.name}.py"  # a name of its own: a process imports a file once
    file.write_text(ENV.format(canary=str(canary)))
    return f"{file}:Walk"
