"""The recipes reach their targets; `benchmarks/learning.py` has all of them, over three seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

import rookery
from training.runs import QUIET

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("world", "learner", "steps", "least"),
    [
        ("CartPole-v1", "ppo", 100_000, 490),
        ("Pendulum-v1", "ppo", 200_000, -220),
        ("CartPole-v1", "dqn", 50_000, 475),
        pytest.param("Pendulum-v1", "sac", 20_000, -180, marks=pytest.mark.slow),
        pytest.param("MountainCarContinuous-v0", "sac", 50_000, 90, marks=pytest.mark.slow),
        pytest.param("Acrobot-v1", "ppo", 500_000, -90, marks=pytest.mark.slow),
    ],
)
def test_a_known_world_is_learned(world: str, learner: str, steps: int, least: float, tmp_path: Path) -> None:
    """With nothing but its name, the learner's and the number of steps given, on 20 episodes at the end."""
    result = rookery.train(
        world,
        learner=learner,
        steps=steps,
        seed=1,
        runs_dir=tmp_path,
        monitor=QUIET,
        evaluation={"every": steps, "episodes": 20},
        checkpoints={"every": steps},
    )
    assert result.evaluation is not None and result.evaluation >= least


def test_hockey_is_won_against_the_weak_script(tmp_path: Path) -> None:
    """After a fifth of what `make train` does, most games are."""
    result = rookery.train("hockey", steps=1_500_000, runs_dir=tmp_path, monitor=QUIET, evaluation={"episodes": 40})
    assert result.evaluation is not None and result.evaluation > 1.0
