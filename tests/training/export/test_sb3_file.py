"""Agents as models of Stable-Baselines3, and back."""

from __future__ import annotations

import numpy as np
import pytest
import stable_baselines3
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import rookery
from rookery.cli.main import main
from rookery.errors import OptionError
from rookery.training.export.sb3_file import export_sb3
from rookery.training.sb3_models.import_sb3 import import_sb3
from training.finished import make_run
from training.sb3_models.sb3_zips import Blank

VECTOR = spaces.Box(-5, 5, (3,), np.float32)
ARM = spaces.Box(np.array([-1.0, 10.0], np.float32), np.array([3.0, 12.0], np.float32))
KINDS = {
    "ppo": ("ppo", VECTOR, spaces.Discrete(4), {"activation": "gelu"}),
    "ppo, several choices": ("ppo", spaces.MultiDiscrete([3, 4]), spaces.MultiDiscrete([2, 3]), {"hidden": [9]}),
    "ppo, an arm": ("ppo", VECTOR, ARM, {}),
    "sac": ("sac", VECTOR, ARM, {"hidden": [16, 8]}),
    "td3": ("td3", VECTOR, ARM, {"hidden": [16]}),
    "dqn, dueling": ("dqn", VECTOR, spaces.Discrete(3), {"hidden": [8, 7], "activation": "tanh"}),
}


def seen(space: spaces.Space) -> np.ndarray:
    space.seed(2)
    return np.stack([space.sample() for _ in range(1000)])


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_sb3_acts_as_the_agent(kind, tmp_path):
    learner, observed, acted, options = KINDS[kind]
    run = make_run(tmp_path, "Pendulum-v1" if acted is ARM else "CartPole-v1", learner, observed, acted, **options)
    (path,) = export_sb3(run.path)
    model = getattr(stable_baselines3, learner.upper()).load(path, device="cpu")
    expected = rookery.load(run.path).act(seen(observed), deterministic=True)
    actions, _ = model.predict(seen(observed), deterministic=True)
    np.testing.assert_allclose(actions, expected, atol=1e-6 * 12, rtol=0)  # of numbers up to 12
    back = import_sb3(path).agent.act(seen(observed), deterministic=True)
    np.testing.assert_allclose(back, expected, atol=1e-6 * 12, rtol=0)


def test_normalised_observations(tmp_path, caplog):
    run = make_run(tmp_path, "Pendulum-v1", "ppo", VECTOR, ARM, normalise_observations=True)
    caplog.set_level("INFO")
    assert main(["export", str(run.path), "--sb3", str(tmp_path / "model.zip")]) == 0
    assert "VecNormalize.load(" in caplog.text
    model = stable_baselines3.PPO.load(tmp_path / "model.zip", device="cpu")
    envs = DummyVecEnv([lambda: Blank(VECTOR, ARM)])
    normal = VecNormalize.load(str(tmp_path / "model_vecnormalize.pkl"), envs).normalize_obs(seen(VECTOR))
    expected = rookery.load(run.path).act(seen(VECTOR), deterministic=True)
    np.testing.assert_allclose(model.predict(normal, deterministic=True)[0], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("options", "spaces_of", "message"),
    [
        ({"recurrent": 4}, (VECTOR, ARM), "recurrent"),
        ({"share_weights": True, "asset_columns": [1, 1]}, (VECTOR, ARM), "assets share"),
        ({}, (spaces.Dict(a=VECTOR, b=VECTOR), ARM), "one vector"),
        ({}, (VECTOR, spaces.Discrete(3, start=1)), "cannot act in"),
    ],
)
def test_what_sb3_has_not(options, spaces_of, message, tmp_path):
    run = make_run(tmp_path, "Pendulum-v1", "ppo", *spaces_of, **options)
    with pytest.raises(OptionError, match=message):
        export_sb3(run.path)
    assert not (run.path / "sb3_model.zip").exists()
