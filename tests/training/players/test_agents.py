"""Who can sit at a game: what they do there, and how they are found."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.errors import OptionError, SpaceError
from rookery.training.players.agents import AgentPlayer, FilePlayer, Script, find_player, seated
from rookery.training.resolve.seats import Seat, seat_of
from rookery.training.resolve.world_choice import duel_of, find
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.shipped_agents import save_agent, shipped_agent
from rookery.worlds.hockey.rules import discrete_action
from training.finished import make_run
from training.tug import SEAT, agent, write_agent

pytestmark = pytest.mark.usefixtures("all_allowed")

HOCKEY = seat_of(*duel_of(find("hockey")).spaces)
VIEWS = np.random.default_rng(0).normal(size=(8, 40, 3)).astype(np.float32)  # of 8 games


def played(player, games, envs, steps=40, together=True) -> np.ndarray:
    """What a player does in these games, each in an env of its own: at once, or one game after the other."""
    if not together:
        return np.concatenate([played(player, [game], [env], steps) for game, env in zip(games, envs, strict=True)])
    envs = np.array(envs)
    player.begin(envs, [100 + game for game in games])
    return np.stack([player.act(VIEWS[games, t], envs) for t in range(steps)], 1)


# --- agents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["ppo", "sac"])
def test_an_agent_plays_its_likeliest_actions(learner):
    mine = agent(learner)
    given = played(seated(mine, "me", SEAT), range(8), range(8), 5)
    for t in range(5):
        np.testing.assert_allclose(given[:, t], mine.act(VIEWS[:, t], deterministic=True), atol=2e-6)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_game_depends_on_its_seed_alone(deterministic):
    """Not on the env it is in, on the games beside it, or on those before."""
    player = seated(agent(), "me", SEAT, deterministic=deterministic)
    first = played(player, [0, 1, 2, 3], [0, 1, 2, 3])
    assert np.array_equal(first, played(player, [3, 2, 1, 0], [7, 0, 2, 1])[::-1])
    assert np.array_equal(first, played(player, [0, 1, 2, 3], [5, 5, 5, 5], together=False))


def test_drawn_actions_follow_the_seeds():
    """Over the end of a block of noise, too."""
    player = seated(agent(), "me", SEAT, deterministic=False)
    envs, views = np.arange(2), np.zeros((2, 3), np.float32)

    def drawn(seeds=None) -> np.ndarray:
        player.begin(envs, seeds)
        return np.stack([player.act(views, envs) for _ in range(150)])

    one, other = drawn([1, 2]), drawn([2, 1])
    assert np.array_equal(one, other[:, ::-1])
    assert len(np.unique(one)) > 150  # a block that came twice would leave 128
    assert not np.array_equal(drawn(), drawn())  # left to itself, each game is another


def test_a_recurrent_agent_remembers_each_game():
    mine = agent(recurrent=4)
    player = seated(mine, "me", SEAT)
    together = played(player, [0, 1], [3, 9])
    for game in (0, 1):
        mine.reset_memory()
        alone = np.stack([mine.act(VIEWS[[game], t], deterministic=True)[0] for t in range(40)])
        np.testing.assert_allclose(together[game], alone, atol=1e-5)
    assert np.allclose(together, played(player, [0, 1], [3, 9]), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"recurrent": 4}])
def test_games_go_on_from_a_saved_state(options):
    player, other = (seated(agent(**options), "me", SEAT, deterministic=False) for _ in range(2))
    played(player, [0, 1, 2], [0, 1, 2], steps=25)
    other.load({key: np.array(value) if key != "begun" else value for key, value in player.state().items()})
    envs = np.arange(3)
    for t in range(80):
        assert np.array_equal(player.act(VIEWS[:3, t % 40], envs), other.act(VIEWS[:3, t % 40], envs))


def test_an_agent_is_as_it_was_until_refreshed():
    mine = agent()
    player = seated(mine, "me", SEAT)
    before = played(player, [0], [0])
    with torch.no_grad():
        for parameter in mine.policy.parameters():
            parameter.normal_()
    assert np.array_equal(before, played(player, [0], [0]))
    player.refresh()
    assert not np.array_equal(before, played(player, [0], [0]))


def test_an_agent_must_fit():
    with pytest.raises(OptionError, match=r"me cannot play here: its agent acts in Box.*\(1,\).*has Box.*\(4,\)"):
        seated(agent(), "me", HOCKEY)
    other = Seat(spaces.Box(0, 1, (3,), np.float32), SEAT.action_space)
    with pytest.raises(OptionError, match="me cannot play here: its agent observes"):
        seated(agent(), "me", other)
    with pytest.raises(OptionError, match=r"its agent acts in Discrete\(9\)"):  # no fineness has so many
        seated(agent("dqn", seat=Seat(HOCKEY.observation_space, spaces.Discrete(9))), "me", HOCKEY)


@pytest.mark.parametrize("fineness", [2, 3])
def test_an_agent_with_discrete_actions_plays_in_numbers(fineness):
    seat = Seat(HOCKEY.observation_space, spaces.Discrete(1 + 6 * (fineness - 1) + 1))
    mine = agent("dqn", seat=seat)
    views = np.random.default_rng(1).normal(size=(50, 18)).astype(np.float32)
    player = seated(mine, "me", HOCKEY)
    player.begin(np.arange(50))
    given, chosen = player.act(views, np.arange(50)), mine.act(views, deterministic=True)
    assert len(set(chosen.tolist())) > 2
    assert given.dtype == np.float32
    assert np.array_equal(given, np.float32([discrete_action(int(k), fineness) for k in chosen]))


# --- agents in files ----------------------------------------------------------------------------------------------


def test_a_file_has_an_instance_for_each_env(tmp_path):
    body = """made = 0
def __init__(self):
    Agent.made += 1
    self.number, self.games, self.steps = Agent.made, 0, 0
def reset(self):
    self.games, self.steps = self.games + 1, 0
def act(self, obs):
    assert obs.shape == (3,)
    self.steps += 1
    obs[:] = 0.0
    return [self.number / 10 + self.games / 100 + self.steps / 1000]"""
    player = FilePlayer(write_agent(tmp_path, body), SEAT)
    assert player.name == "agent.Agent"
    envs, views = np.array([0, 4]), np.ones((2, 3), np.float32)
    player.begin(envs)
    player.begin(envs[1:])
    player.act(views, envs)
    assert np.allclose(player.act(views, envs), [[0.112], [0.222]])
    assert views.all(), "what it does to its observation is its own affair"


def test_a_files_actions_are_cut_to_the_bounds(tmp_path):
    player = FilePlayer(write_agent(tmp_path, "def act(self, obs):\n    return np.array([7.5])"), SEAT)
    player.begin(np.arange(1))
    given = player.act(np.zeros((1, 3), np.float32), np.arange(1))
    assert given.dtype == np.float32 and given.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "def act(self, obs):\n    return np.zeros(2)",
            r"agent.py:Agent: act\(obs\) should return numbers of shape \(1,\)",
        ),
        ("def act(self, obs):\n    return [np.nan]", "should return finite numbers"),
        ("def act(self, obs):\n    return 'left'", "should return numbers for Box"),
        ("def act(self, obs):\n    return None", "should return"),
    ],
)
def test_bad_actions_of_a_file_are_named(tmp_path, body, words):
    player = FilePlayer(write_agent(tmp_path, body), SEAT)
    player.begin(np.arange(1))
    with pytest.raises(SpaceError, match=words):
        player.act(np.zeros((1, 3), np.float32), np.arange(1))


def test_a_file_may_choose_where_choices_are_wanted(tmp_path):
    seat = Seat(SEAT.observation_space, spaces.Discrete(3))
    player = FilePlayer(write_agent(tmp_path, "def act(self, obs):\n    return obs[0]"), seat)
    player.begin(np.arange(1))
    assert player.act(np.full((1, 3), 2.0, np.float32), np.arange(1)).tolist() == [2]
    for bad in (3.0, 0.5):
        with pytest.raises(SpaceError, match=r"should return an action in Discrete\(3\)"):
            player.act(np.full((1, 3), bad, np.float32), np.arange(1))


def test_files_that_hold_no_player(tmp_path):
    with pytest.raises(OptionError, match="there is no file"):
        find_player(f"{tmp_path}/none.py:Agent", SEAT)
    place = write_agent(tmp_path, "def act(self, obs):\n    return [0]")
    with pytest.raises(OptionError, match=r"has no class 'Agnet'; with a method act there are: \['Agent'\]"):
        find_player(place.replace(":Agent", ":Agnet"), SEAT)
    for name, body, words in (
        ("a.py", "def move(self, obs):\n    return [0]", r"should have a method act\(obs\)"),
        ("b.py", "def __init__(self, size):\n    pass", "should take no arguments"),
    ):
        with pytest.raises(OptionError, match=words):
            find_player(write_agent(tmp_path, body, name), SEAT).begin(np.arange(1))


# --- looking players up -------------------------------------------------------------------------------------------


def test_scripts_are_known_by_name():
    assert find_player("none", SEAT) == Script("none")
    assert find_player("basic_strong", SEAT) == find_player("Strong", SEAT) == Script("strong")
    assert (Script("none").parameter, Script("weak").parameter) == ("free", "weak")


def test_runs_checkpoints_and_shipped_agents(tmp_path):
    run = make_run(tmp_path, "hockey", "ppo")
    folder = Checkpoints(run.checkpoints).latest()
    by_name = find_player("finished", HOCKEY, tmp_path)
    by_path = find_player(str(run.path), HOCKEY)
    at_step = find_player(str(folder), HOCKEY, deterministic=False)
    shipped = find_player("hockey", HOCKEY, tmp_path)
    assert [x.name for x in (by_name, by_path, at_step, shipped)] == [
        "finished", "finished", "finished-step-000000001000", "hockey",
    ]  # fmt: skip
    assert by_name.deterministic and not at_step.deterministic
    assert all(isinstance(x, AgentPlayer) for x in (by_name, by_path, at_step, shipped))


def test_whoever_is_not_found_is_told_who_could_be(tmp_path):
    make_run(tmp_path)
    with pytest.raises(OptionError, match=r"no player 'finishd': give none, weak or strong .* did you mean finished\?"):
        find_player("finishd", HOCKEY, tmp_path)
    with pytest.raises(OptionError, match="finished cannot play here"):
        find_player("finished", HOCKEY, tmp_path)


def test_an_agent_can_be_saved_for_shipping(tmp_path):
    run = make_run(tmp_path, "hockey", "sac")
    _, tree = Checkpoints(run.checkpoints).load_latest(only=("agent",))
    save_agent(tree["agent"], tmp_path / "shipped" / "mine")
    views = np.ones((2, 18), np.float32)
    given = [
        find_player(str(place), HOCKEY, tmp_path).act(views, np.arange(2))
        for place in (tmp_path / "shipped" / "mine", "finished")
    ]
    assert np.array_equal(*given)


def test_the_shipped_agent_plays_hockey():
    agent = shipped_agent("hockey")
    assert agent.observation_space == HOCKEY.observation_space
    assert np.isfinite(agent.act(np.zeros((1, 18), np.float32), deterministic=True)).all()
    with pytest.raises(OptionError, match="no agent 'chess' comes with rookery; there is hockey"):
        shipped_agent("chess")
