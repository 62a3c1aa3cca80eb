"""A script of Stable-Baselines3's, moved as its page says: as short as it says, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rookery
from docs.pages import blocks

MOST_LINES = 12
SCRIPT = next(code for code in blocks("docs/coming-from/stable-baselines3.md", "python") if "class Features" in code)


def lines_of(code: str) -> list[str]:
    return [line for line in code.splitlines() if line.strip() and not line.strip().startswith("#")]


def run(folder: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_it_is_short():
    assert len(lines_of(SCRIPT)) <= MOST_LINES
    assert all(len(line) <= 120 for line in SCRIPT.splitlines())
    assert "__main__" not in SCRIPT


@pytest.mark.slow  # each of its calls is tested by itself
@pytest.mark.timeout(900)
def test_it_runs_as_a_file_and_nothing_is_lost(tmp_path, monkeypatch):
    """Then another process resumes its run, without training as the script does."""
    (tmp_path / "script.py").write_text(SCRIPT)
    run(tmp_path, "script.py")
    assert (tmp_path / "video.mp4").stat().st_size > 1_000 and (tmp_path / "agent.onnx").stat().st_size > 1_000
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    options = json.loads((folder / "config.json").read_text())["ppo"]
    assert options["normalise_observations"] and options["normalise_rewards"]
    assert (options["hidden"], options["critic_hidden"]) == ([32], [64])
    assert (options["learning_rate"], options["learning_rate_schedule"]) == (1e-3, "linear")
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    assert len([line for line in lines if "eval/return" in line]) >= 2
    run(tmp_path, "-m", "rookery", "resume", "latest", "--steps", "8192")
    monkeypatch.chdir(tmp_path)
    assert rookery.load(folder, best=False, trust=True).steps == 8192
    agent = rookery.load("my_agent", trust=True)
    assert agent.policy.encoder.norm.count > 0
    assert agent.predict(np.zeros(4, np.float32), deterministic=True)[0] in (0, 1)


def test_an_extractor_of_stable_baselines3_works_unchanged():
    torch_layers = pytest.importorskip("stable_baselines3.common.torch_layers")
    from gymnasium import spaces

    from rookery.config import user_config
    from rookery.learners.registry import make_learner

    class Extractor(torch_layers.BaseFeaturesExtractor):
        def __init__(self, observation_space, features_dim):
            super().__init__(observation_space, features_dim)
            self.linear = torch_layers.nn.Linear(observation_space.shape[0], features_dim)

        def forward(self, observations):
            return self.linear(observations)

    kwargs = {"features_extractor_class": Extractor, "features_extractor_kwargs": {"features_dim": 7}}
    options = user_config("CartPole-v1", learner="ppo", policy_kwargs=kwargs, norm_obs=True).ppo
    policy = make_learner("ppo", spaces.Box(-1, 1, (4,)), spaces.Discrete(2), options, 2).policy
    assert policy.encoder.width == 7 and policy.encoder.norm is not None
