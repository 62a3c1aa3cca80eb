"""Action masks that do not fit the action space: what a stranger is told about their env."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.cli.main import main
from rookery.errors import SpaceError
from rookery.learners.action_spaces import mask_of
from rookery.learners.observations import choices_in
from rookery.learners.registry import PPOOptions, make_learner

WORLD = """
import gymnasium as gym
import numpy as np


class Masked(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    first, later = 3, 3  # entries of the mask at the start, and after a step

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {"action_mask": np.ones(self.first, np.int8)}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {"action_mask": np.ones(self.later, np.int8)}


class WrongLater(Masked):
    first = 2
"""


@pytest.mark.parametrize("learner", ["ppo", "dqn", "pqn"])
@pytest.mark.parametrize("name", ["Masked", "WrongLater"])
def test_a_mask_of_the_wrong_width_is_one_sentence(learner: str, name: str, tmp_path: Path, capsys) -> None:
    """It names the shape that came and the one that is expected, whenever the mask first does not fit."""
    (tmp_path / "my_world.py").write_text(WORLD)
    words = f"{tmp_path}/my_world.py:{name} --learner {learner} --num-envs 2 --backend serial --steps 256 --no-panel"
    soon = ["--set", "dqn.n_step=1"]  # so that DQN stores the mask before it acts under it
    assert main(["train", *words.split(), *soon, "--runs-dir", str(tmp_path / "runs")]) == 2
    expected = "`action_mask` should have 2 entries in each env, one for each choice in Discrete(2): here shape (2, 2)"
    assert f"rookery: {expected} in all, got (2, 3)\n" in capsys.readouterr().err


def test_an_agent_refuses_such_a_mask_too() -> None:
    """As evaluations and users hand them over."""
    space = spaces.MultiDiscrete([3, 2])
    learner = make_learner("ppo", spaces.Box(-1, 1, (2,)), space, PPOOptions(), 4, 0, torch.device("cpu"))
    rows = np.zeros((4, 2), np.float32)
    assert learner.agent.act(rows, mask=np.ones((4, 5))).shape == (4, 2)
    with pytest.raises(SpaceError, match=r"5 entries in each env.*shape \(4, 5\) in all, got \(4, 2, 3\)"):
        learner.agent.act(rows, mask=np.ones((4, 2, 3)))


def test_masks_that_differ_from_env_to_env_are_refused() -> None:
    """Envs that told nothing allow everything; those that did must agree on the shape."""
    masks = np.array([np.array([1, 0]), None, np.array([0, 1])], dtype=object)
    assert mask_of(np.zeros(3), {"action_mask": masks}).tolist() == [[True, False], [True, True], [False, True]]
    masks[2] = np.array([0, 1, 1])
    with pytest.raises(SpaceError, match=r"same shape in all envs, got \(2,\) and \(3,\)"):
        mask_of(np.zeros(3), {"action_mask": masks})


def test_a_mask_counts_choices() -> None:
    """Only spaces of choices have them."""
    assert choices_in(spaces.Discrete(4, start=2)) == 4
    assert choices_in(spaces.MultiDiscrete([3, 2])) == 5
    assert choices_in(spaces.Box(-1, 1, (2,))) is None
