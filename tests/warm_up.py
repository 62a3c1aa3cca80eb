"""Compiles what most tests need and keeps it in the user's cache: `make setup` does so while it installs the rest.

Otherwise each process of the tests compiles the same for a minute and more, at the same time.
"""

from __future__ import annotations

import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from training import runs

RUNS = [("ppo", "CartPole-v1"), ("ppo", "Pendulum-v1"), ("sac", "Pendulum-v1"), ("dqn", "CartPole-v1")]
LARGE_WORLDS = ("rookery/HockeyOne-v0", "rookery/Hockey-v0")  # they take as long as all else


def compile_worlds() -> None:
    for world in LARGE_WORLDS:
        rookery.make_vec(world, 2, backend="kernel").close()


if __name__ == "__main__":
    beside = get_context("spawn").Process(target=compile_worlds)
    beside.start()
    with tempfile.TemporaryDirectory() as folder:
        for learner, world in RUNS:
            runs.train(learner, Path(folder), world=world, steps=256)
    beside.join()
