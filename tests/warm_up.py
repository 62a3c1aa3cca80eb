"""Compiles what most tests need and keeps it in the user's cache: `make setup` does so while it installs the rest.

Otherwise each process of the tests compiles the same for a minute and more, at the same time.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from training import runs

WORLDS = [
    ("ppo", "CartPole-v1"),
    ("ppo", "Pendulum-v1"),
    ("ppo", "hockey"),
    ("sac", "Pendulum-v1"),
    ("dqn", "CartPole-v1"),
]

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for learner, world in WORLDS:
            runs.train(learner, Path(folder), world=world, steps=256)
    rookery.make_vec("rookery/Hockey-v0", 2, backend="kernel").close()  # for two players
