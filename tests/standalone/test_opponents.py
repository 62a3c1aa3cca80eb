"""Who plays hockey without torch, and how they are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from rookery.errors import OptionError, SpaceError
from rookery.training.players.file_player import find_opponent
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.load_agent import load_agent
from rookery.worlds.hockey.rules import discrete_action
from training.finished import make_run

pytestmark = pytest.mark.usefixtures("all_allowed")

VIEWS = np.random.default_rng(1).normal(size=(20, 18)).astype(np.float32)
MINE = """
class Agent:
    def __init__(self):
        self.games = self.steps = 0

    def reset(self):
        self.games += 1

    def act(self, obs):
        self.steps += 1
        return [2.0, -obs[1], self.games, 1]

class Odd:
    def act(self, obs):
        return [1, 2, 3]
"""
WITHOUT = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "numba"):
            raise ImportError(name)

sys.meta_path.insert(0, Nothing())
from rookery.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def test_the_agent_that_comes_with_rookery():
    """By either name; it gives four numbers for what it sees."""
    for who in ("agent", "hockey"):
        found = find_opponent(who)
        assert found.name == "rookery's agent"
        found.begin()
        action = found.act(VIEWS[0])
        assert np.shape(action) == (4,) and np.abs(action).max() <= 1


@pytest.mark.parametrize("learner", ["ppo", "sac"])
def test_a_run_plays_as_torch_would_have_it(tmp_path, learner):
    agent = load_agent(make_run(tmp_path, "hockey", learner, normalise_observations=True))
    found = find_opponent("finished", tmp_path)
    assert found.name == "finished"
    actions = [found.act(view) for view in VIEWS]
    np.testing.assert_allclose(actions, agent.act(VIEWS, deterministic=True), atol=1e-5)


def test_a_checkpoint_whose_agent_chooses(tmp_path):
    run = make_run(tmp_path, "hockey", "dqn")
    found = find_opponent(str(Checkpoints(run.checkpoints).latest()))
    chosen = load_agent(run).act(VIEWS, deterministic=True)
    assert [tuple(found.act(view)) for view in VIEWS] == [discrete_action(int(index), 2) for index in chosen]


def test_a_memory_ends_with_the_game(tmp_path):
    make_run(tmp_path, "hockey", recurrent=4)
    found = find_opponent("finished", tmp_path)
    first = []
    for _ in range(2):
        found.begin()
        first.append([found.act(view) for view in VIEWS[:3]])
    np.testing.assert_array_equal(*first)


def test_an_agent_in_a_file(mine):
    """Made without arguments, told of games, cut to what the game allows."""
    found = find_opponent(f"{mine}:Agent")
    assert found.name == "mine.Agent"
    found.begin()
    assert found.act(np.full(18, 0.5, np.float32)).tolist() == [1.0, -0.5, 1.0, 1.0]
    odd = find_opponent(f"{mine}:Odd")
    odd.begin()
    with pytest.raises(SpaceError, match=r"shape \(4,\), got \[1, 2, 3\]"):
        odd.act(VIEWS[0])


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ("strnog", "there is no player 'strnog': give human, weak or strong, agent"),
        ("nowhere.py:Agent", "there is no file 'nowhere.py'"),
        ("finished", "finished cannot play hockey: its agent observes Box"),
    ],
)
def test_who_cannot_play(tmp_path, who, words):
    make_run(tmp_path, "CartPole-v1")
    with pytest.raises(OptionError, match=words):
        find_opponent(who, tmp_path)


@pytest.mark.slow
def test_the_command_needs_neither_torch_nor_numba(tmp_path, mine):
    """Against whoever is named, a run included; the shipped agent unless told otherwise."""
    make_run(tmp_path, "hockey", "dqn")
    for words, names in (
        (["--player", f"{mine}:Agent"], ["mine.Agent", "rookery's agent"]),
        (["--player", "agent", "--opponent", "finished", "--runs-dir", str(tmp_path)], ["rookery's agent", "finished"]),
    ):
        command = [sys.executable, "-c", WITHOUT, "play", "hockey", "--json", "--games", "1", "--fps", "1000"]
        ended = subprocess.run(
            [*command, "--mode", "shooting", *words], capture_output=True, text=True, timeout=60,
            env=os.environ | {"SDL_VIDEODRIVER": "dummy"},
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        answer = json.loads(ended.stdout)
        assert answer["games"] == 1 and answer["names"] == names
