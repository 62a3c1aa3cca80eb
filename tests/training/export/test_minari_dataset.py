"""Episodes of agents as Minari datasets, and agents from them."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from rookery.cli.main import main
from training.finished import make_run

minari = pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


def test_episodes_are_the_agents_own(tmp_path, capsys):
    run = make_run(tmp_path, "CartPole-v1")
    words = ["dataset", str(run.path), "cartpole/test-v0", "--episodes", "3", "--seed", "5"]
    assert main(words) == 0
    dataset, agent = minari.load_dataset("cartpole/test-v0"), rookery.load(run.path)
    assert dataset.total_episodes == 3
    for episode in dataset.iterate_episodes():
        count = len(episode.actions)
        assert len(episode.observations) == count + 1 and episode.rewards.sum() == count
        assert episode.terminations[-1] or episode.truncations[-1]
        assert not episode.terminations[:-1].any()
        assert np.array_equal(agent.act(episode.observations[:-1], deterministic=True), episode.actions)
    assert main(words) == 2 and "already" in capsys.readouterr().err


def test_an_agent_does_what_a_dataset_shows(tmp_path, capsys):
    run = make_run(tmp_path, "CartPole-v1")
    assert main(["dataset", str(run.path), "cartpole/test-v0", "--episodes", "20"]) == 0
    assert main(["clone", "cartpole/test-v0", "--output", str(tmp_path / "agent"), "--epochs", "60"]) == 0
    clone, model = rookery.load(tmp_path / "agent"), rookery.load(run.path)
    episode = next(iter(minari.load_dataset("cartpole/test-v0").iterate_episodes()))
    same = clone.act(episode.observations, deterministic=True) == model.act(episode.observations, deterministic=True)
    assert same.mean() > 0.8
    assert main(["clone", "cartpole/test-v0", "--output", str(tmp_path / "agent")]) == 2
    assert "--force" in capsys.readouterr().err
