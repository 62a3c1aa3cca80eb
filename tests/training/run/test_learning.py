"""The recipes learn; `benchmarks/learning.py` measures how much, over three seeds.

What a run has learned after a given number of steps depends on the last bit of every sum, so on the processor too. A
run here therefore ends with the first evaluation that meets its goal, which is far from what chance gets and from the
most there is, and has at least twice the steps that any run was seen to need.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import rookery
from training.runs import QUIET

pytestmark = pytest.mark.timeout(600)  # only a run that learns nothing takes all its steps


def check_learned(folder: Path, world: str, goal: float, every: int, **options: object) -> None:
    """Some evaluation, of which there is one after `every` steps, meets the goal before the steps are used up."""
    result = rookery.train(
        world,
        seed=1,
        runs_dir=folder,
        monitor=QUIET,
        evaluation={"every": every, "episodes": 40, "stop_at": goal},
        checkpoints={"every": 10**9},
        **options,
    )
    assert result.reason == "goal reached", f"{result.best_evaluation} at best, wanted {goal}"


@pytest.mark.parametrize(
    ("world", "learner", "steps", "goal"),
    [
        ("CartPole-v1", "ppo", 100_000, 400),  # by chance 22, at most 500
        pytest.param("Pendulum-v1", "ppo", 200_000, -400, marks=pytest.mark.slow),  # by chance -1,200, at most -150
        pytest.param("CartPole-v1", "dqn", 100_000, 400, marks=pytest.mark.slow),
        pytest.param("Pendulum-v1", "sac", 40_000, -300, marks=pytest.mark.slow),
        pytest.param("MountainCarContinuous-v0", "sac", 100_000, 80, marks=pytest.mark.slow),  # by chance -33
        pytest.param("Acrobot-v1", "ppo", 1_000_000, -120, marks=pytest.mark.slow),  # by chance -500
    ],
)
def test_a_known_world_is_learned(world: str, learner: str, steps: int, goal: float, tmp_path: Path) -> None:
    """With nothing but its name, the learner's and the number of steps given."""
    check_learned(tmp_path, world, goal, steps // 20, learner=learner, steps=steps)


@pytest.mark.slow
def test_hockey_is_won_against_the_weak_script(tmp_path: Path) -> None:
    """By chance it is -8 or less, with a deviation of 1.4 for 40 games; above 1, more games are won than lost."""
    check_learned(tmp_path, "hockey", 1.0, 75_000, steps=3_000_000)
