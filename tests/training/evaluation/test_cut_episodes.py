"""Worlds whose episodes never end: evaluations cut them, and say so."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import rookery
from rookery.training.evaluation import episodes
from rookery.training.evaluation.episodes import cut_note, remedy_for
from rookery.training.evaluation.evaluate import evaluate
from rookery.training.resolve.world_choice import find
from training.runs import notes, small


class Endless(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(2, np.float32), 1.0, False, False, {}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit, low enough for a test."""
    monkeypatch.setattr(episodes, "LONGEST", 40)


def test_a_run_says_it_once(short: None, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the first evaluation, with the limit, and what ends episodes; `rookery eval` says it too."""
    evaluation = {"episodes": 2, "max_episodes": 2, "every": 64}
    options = small("ppo", tmp_path, backend="serial", steps=256, evaluation=evaluation)
    result = rookery.train({**options, "world": f"{__file__}:Endless"})
    (said,) = [text for text in notes(result.path) if "cut" in text]
    assert said.startswith("2 of 2 episodes of an evaluation had not ended after 40 steps and were cut")
    assert "truncated" in said and "`wrappers`" in said and "`evaluation.every`" in said
    evaluate(result.path, episodes=3)
    assert "3 of 3 episodes of an evaluation had not ended" in caplog.text


def test_episodes_that_end_are_not_spoken_of(tmp_path: Path) -> None:
    result = rookery.train(small("ppo", tmp_path, backend="serial", compiled=False, steps=64))
    assert not [text for text in notes(result.path) if "cut" in text]
    assert cut_note([episodes.LONGEST - 1], 1.0) == ""


def test_worlds_that_take_it_are_given_a_length() -> None:
    assert remedy_for(find("CartPole-v1")) == "set `episode_length`"
