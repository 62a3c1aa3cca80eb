"""Which update made the return fall."""

from __future__ import annotations

from pathlib import Path

import pytest

import rookery
from rookery.errors import OptionError
from training.rewind.planted import RATE, planted_file
from training.runs import small


@pytest.mark.slow  # how far the return falls is an outcome of training, which another CPU's rounding can turn
def test_a_planted_update_is_among_the_named(tmp_path: Path) -> None:
    """The learning rate is 300 times as high in update 41 of 48: a window of 47 updates is scanned twice."""
    callback = planted_file(tmp_path / "code", "rate", RATE, update=41, factor=300)
    options = {"rollout_length": 32, "epochs": 4, "hidden": [32]}
    config = small("ppo", tmp_path / "runs", num_envs=8, steps=48 * 256, ppo=options, callbacks=[callback])
    run = rookery.train({**config, "checkpoints": {"every": 4096}})
    blamed = rookery.blame(run, first=256, last=48 * 256, episodes=10)
    assert blamed.exact and len(blamed.suspects) <= 3
    assert any(one.first_update <= 41 <= one.last_update for one in blamed.suspects)
    worst = blamed.suspects[0]
    assert worst.first_update == worst.last_update and worst.gradient is not None and worst.fall > 0
    assert str(worst.last_update) in str(worst) and blamed.as_json()["suspects"][0]["fall"] == worst.fall


def test_an_off_policy_learner_is_tested_between_steps(tmp_path: Path) -> None:
    run = rookery.train(small("dqn", tmp_path, steps=256))
    blamed = rookery.blame(run, first=200, last=240, episodes=2)
    assert all(200 <= one.begin < one.step <= 240 for one in blamed.suspects)
    with pytest.raises(OptionError, match="window"):
        rookery.blame(run, first=200, last=200)
