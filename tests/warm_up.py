"""Compiles what most tests need and keeps it in the user's cache: `make setup` does so while it installs the rest.

`worlds` needs no more than rookery[kernel], `learners` what training needs. Otherwise each process of the tests
compiles the same for a minute and more, at the same time.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rookery

RUNS = [("ppo", "CartPole-v1"), ("ppo", "Pendulum-v1"), ("sac", "Pendulum-v1"), ("dqn", "CartPole-v1")]
WORLDS = [
    f"rookery/{name}-v{version}"
    for name, version in [("CartPole", 1), ("Pendulum", 1), ("HockeyOne", 0), ("Hockey", 0)]
]


def compile_worlds() -> None:
    from worlds.gameboy.test_kernel_console import STAY, console, rom_with

    for world in [*WORLDS, console(rom_with(STAY))]:
        rookery.make_vec(world, 2, backend="kernel").close()


def compile_learners() -> None:
    from training import runs

    with tempfile.TemporaryDirectory() as folder:
        for learner, world in RUNS:
            runs.train(learner, Path(folder), world=world, steps=256)


if __name__ == "__main__":
    {"worlds": compile_worlds, "learners": compile_learners}[sys.argv[1]]()
