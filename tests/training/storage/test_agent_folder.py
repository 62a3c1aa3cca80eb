"""Agents in folders of their own: what is written is read back, and nothing else is overwritten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rookery
from rookery.errors import CheckpointError, FileError, RunError
from rookery.training.players.agents import find_player
from rookery.training.players.file_player import find_opponent
from rookery.training.resolve.seats import seat_of
from rookery.training.resolve.world_choice import duel_of, find
from training.finished import make_run
from training.runs import train
from training.storage.stored import stored_run


@pytest.mark.parametrize(
    ("learner", "options"), [("ppo", {"normalise_observations": True}), ("sac", {}), ("dqn", {}), ("pqn", {})]
)
def test_a_saved_agent_acts_as_before(tmp_path: Path, learner: str, options: dict) -> None:
    """Bit for bit, after another process would have read it."""
    make_run(tmp_path, learner=learner, **options)
    agent = rookery.load("finished", tmp_path)
    path = agent.save(tmp_path / "deep" / "mine")
    again = rookery.load(path)
    agent.observation_space.seed(1)
    rows = np.stack([agent.observation_space.sample() for _ in range(5)])
    assert again.act(rows, deterministic=True).tobytes() == agent.act(rows, deterministic=True).tobytes()
    assert (again.observation_space, again.action_space) == (agent.observation_space, agent.action_space)


def test_the_agent_of_a_result_can_be_saved(tmp_path: Path) -> None:
    """With the weights of now; a second call replaces the first."""
    result = train("ppo", tmp_path, steps=256)
    path = str(tmp_path / "agent")
    for _ in range(2):
        result.agent.save(path)
    row = np.array([0.1, 0.2, -0.1, 0.0], np.float32)
    assert rookery.load(path).predict(row, deterministic=True)[0] == result.agent.act(row, deterministic=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["agent", result.run_name])


def test_the_folder_of_an_agent_is_not_a_run(tmp_path: Path) -> None:
    """The error says what can be done with it."""
    make_run(tmp_path)
    path = rookery.load("finished", tmp_path).save(tmp_path / "agent")
    with pytest.raises(RunError, match=r"is the folder of an agent, .* rookery\.load\('.*agent'\)"):
        rookery.watch(path)


def test_a_run_without_a_checkpoint_has_no_agent_yet(tmp_path: Path) -> None:
    """As after a kill in its first round. The error says how to get one."""
    stored_run(tmp_path, "young")
    for use in (rookery.load, rookery.evaluate):
        with pytest.raises(CheckpointError, match=r"young has no checkpoint yet.* `rookery resume young`"):
            use("young", runs_dir=tmp_path)
    with pytest.raises(CheckpointError, match="young has no checkpoint yet"):
        rookery.train("CartPole-v1", init_from="young", runs_dir=tmp_path, verbose=False)
    with pytest.raises(CheckpointError, match="young has no checkpoint yet"):
        find_opponent("young", tmp_path)


def test_only_agents_are_replaced(tmp_path: Path) -> None:
    make_run(tmp_path)
    agent = rookery.load("finished", tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("done")
    (tmp_path / "note.txt").write_text("here")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for name in ("mine", "note.txt", "link"):
        with pytest.raises(FileError, match="exists already, and is not an agent"):
            agent.save(tmp_path / name)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "done"


def test_a_saved_agent_can_be_an_opponent(tmp_path: Path) -> None:
    make_run(tmp_path, "hockey", "sac")
    path = rookery.load("finished", tmp_path).save(tmp_path / "rival")
    seat = seat_of(*duel_of(find("hockey")).spaces)
    assert seat is not None
    assert find_player(str(path), seat).name == "rival"
