"""Kernel worlds with two agents in their two-player form: one env, both players."""

from __future__ import annotations

import pickle
from copy import copy
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from kernel.board_games import Race, TicTacToe
from kernel.samples import Walker
from rookery.errors import OptionError, WorldError
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import SAME_STEP
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.runner import Runner
from rookery.kernel.two_players import EITHER, TwoPlayerWorld, both_actions
from rookery.kernel.world import KernelWorld


def rows_of(world: KernelWorld, actions: list[Any], seed: int) -> list[dict[str, np.ndarray]]:
    """What both agents of the world itself observe, get and may do, from a reset and after each step."""
    arrays = EnvArrays(world, 1)
    runner = Runner(arrays, SAME_STEP, plain=True)
    arrays.states["seed"] = seed
    runner.reset([0])
    kept = []
    for action in [None, *actions]:
        if action is not None:
            arrays.actions[0] = action
            runner.start_batch_step()
            runner.step(0, 1)
        names = ("observations", "rewards", "terminated", "masks", "infos")
        kept.append({name: arrays.arrays[name].copy() for name in names})
    return kept


@pytest.mark.parametrize("side", [0, 1])
def test_the_form_is_the_world_seen_by_either_agent(side: int) -> None:
    """Observations, rewards, masks and infos are those of the agent that player one is, and of the other one."""
    fields = [4, 0, 8, 2, 6]  # the moves, which agent 0 begins
    both = [[field if agent == k % 2 else 0 for agent in range(2)] for k, field in enumerate(fields)]
    world = TicTacToe()
    rows = rows_of(world, both, seed=3)
    env = KernelEnv(TwoPlayerWorld(world, side), plain=True)
    seen = [(*env.reset(seed=3), 0.0)]
    for action in both:
        observation, reward, _, _, info = env.step(np.array(action if side == 0 else action[::-1]))
        seen.append((observation, info, reward))
    for (observation, info, reward), there in zip(seen, rows, strict=True):
        assert np.array_equal(observation, there["observations"][side])
        assert np.array_equal(info["obs_agent_two"], there["observations"][1 - side])
        assert np.array_equal(info["action_mask"], there["masks"][[side, 1 - side]].ravel())
        assert reward == there["rewards"][side]
    assert seen[-1][1]["winner"] == 0


@pytest.mark.parametrize("side", [0, 1])
def test_infos_of_a_world_are_player_ones(side: int) -> None:
    """Also at a reset, and in arrays; an own `winner` is kept."""
    env = KernelEnv(TwoPlayerWorld(Race(strength=2), side), plain=True)
    _, info = env.reset(seed=1)
    assert (info["place"] == -1.0) == (side == 1) and info["winner"] == 0
    strong, weak = [1.0, 0.0], [0.0, 0.5]
    for _ in range(6):
        observation, reward, terminated, truncated, info = env.step(np.array(strong + weak, np.float32))
        assert reward == 1.0 and info["pushes"].tolist() == strong
        assert observation[2] == side and info["obs_agent_two"][2] == 1 - side
    assert info["winner"] == 1 and truncated and not terminated
    assert info["place"] > info["obs_agent_two"][0]


def test_winner_is_who_has_the_higher_return() -> None:
    """In a world that does not say it."""
    env = KernelEnv(TwoPlayerWorld(TicTacToe(), 1), plain=True)
    env.reset(seed=1)
    for k, field in enumerate([0, 3, 1, 4, 2]):  # agent 0, which is player two, gets a row
        *_, terminated, _, info = env.step(np.array([field, 8]) if k % 2 else np.array([8, field]))
    assert terminated and info["winner"] == -1


def test_only_the_agent_at_turn_has_a_choice() -> None:
    """The other one's mask allows one action, so that no learner takes it for a choice."""
    there = rows_of(TicTacToe(), [[4, 0], [0, 5], [1, 0]], seed=1)
    for k, row in enumerate(there):
        own, other = row["masks"][k % 2], row["masks"][1 - k % 2]
        assert own.sum() == 9 - k and other.tolist() == [1] + [0] * 8


class NoMask(TicTacToe):
    """All moves are allowed to the agent at turn."""

    action_mask = None


def test_turns_make_masks_of_their_own() -> None:
    rows = rows_of(NoMask(), [[4, 0]], seed=1)
    assert [row["masks"].sum(axis=1).tolist() for row in rows] == [[9, 1], [1, 9]]


class Pairs(NoMask):
    """Moves of two numbers."""

    action_space = spaces.MultiDiscrete([3, 2])

    @staticmethod
    def step(state, action, rewards):
        rewards[0] = action[state.steps % 2, 0] + 10 * action[state.steps % 2, 1]
        return False


def test_turns_mask_every_number_of_an_action() -> None:
    """The agent that is not at turn has the first choice of each; in the two-player form too."""
    rows = rows_of(Pairs(), [[[2, 1], [0, 0]]], seed=1)
    assert [row["masks"].tolist() for row in rows] == [[[1] * 5, [1, 0, 0, 1, 0]], [[1, 0, 0, 1, 0], [1] * 5]]
    env = KernelEnv(TwoPlayerWorld(Pairs(), 0), plain=True)
    _, info = env.reset(seed=1)
    assert info["action_mask"].tolist() == [1] * 5 + [1, 0, 0, 1, 0]
    assert env.step(np.array([2, 1, 0, 0]))[1] == 12.0


def test_sides_are_drawn_in_each_episode() -> None:
    """By the env's own random numbers: the same seed, the same sides."""
    env = KernelEnv(TwoPlayerWorld(TicTacToe(), EITHER), plain=True)
    sides = []
    for seed in range(30):
        env.reset(seed=seed)
        sides.append(env.state.player_one_agent)
    assert 5 < sum(sides) < 25
    env.reset(seed=7)
    assert env.state.player_one_agent == sides[7]
    env.reset(seed=7, options={"player_one_agent": 1})
    assert env.state.player_one_agent == 1


def test_parameters_are_the_worlds() -> None:
    form = TwoPlayerWorld(Race(strength=2))
    assert form.values["strength"] == 2 and form.changed(strength=3.5).values["strength"] == 3.5
    assert form.values["strength"] == 2 and form.params_dtype["strength"] == np.float64
    with pytest.raises(OptionError, match=r"Race has no parameter 'strenght'; did you mean 'strength'\?"):
        form.encode({"strenght": 1.0})
    with pytest.raises(OptionError, match="player_one_agent should be 0, 1, or -1"):
        TwoPlayerWorld(Race(), 2)


def test_forms_are_copied_and_pickled() -> None:
    form = TwoPlayerWorld(TicTacToe(time_limit=4), EITHER)
    for other in (copy(form), pickle.loads(pickle.dumps(form))):
        assert other.values == form.values and other.state_dtype == form.state_dtype
    env = KernelEnv(form, plain=True)
    env.reset(seed=3)
    env.step(np.array([4, 4]))
    again = pickle.loads(pickle.dumps(env))
    assert all(np.array_equal(a, b) for a, b in zip(env.step([1, 1])[:4], again.step([1, 1])[:4], strict=True))


def test_both_actions_are_in_one_space() -> None:
    class Buttons(TicTacToe):
        action_space = spaces.Discrete(9, start=1)

    assert both_actions(Buttons()) == spaces.MultiDiscrete([9, 9], start=[1, 1])
    assert both_actions(Race()) == spaces.Box(-1, 1, (4,), np.float32)


def test_worlds_that_have_no_form_say_why() -> None:
    class Three(Race):
        num_agents = 3

    class Square(Race):
        action_space = spaces.Box(-1, 1, (2, 2), np.float32)

    class Taken(Race):
        state = {"x": ("f8", (2,)), "agent_returns": "f8"}

    with pytest.raises(WorldError, match=r"Three has 3 agents: .* need num_agents = 2"):
        TwoPlayerWorld(Three())
    with pytest.raises(WorldError, match="Walker has 1 agents"):
        TwoPlayerWorld(Walker())
    with pytest.raises(WorldError, match="its action space should be Discrete, MultiDiscrete or a Box"):
        TwoPlayerWorld(Square())
    with pytest.raises(WorldError, match="uses the name 'agent_returns'"):
        TwoPlayerWorld(Taken())


def test_turn_is_for_several_agents() -> None:
    class Alone(Walker):
        @staticmethod
        def turn(state):
            return 0

    with pytest.raises(WorldError, match=r"Alone.turn says whose turn it is, but num_agents is 1"):
        Alone()


@pytest.mark.slow
@pytest.mark.parametrize("world", [TicTacToe, Race])
def test_compiled_code_and_plain_python_agree(world: type[KernelWorld]) -> None:
    form = TwoPlayerWorld(world(), EITHER)
    compiled, plain = KernelEnv(form), KernelEnv(form, plain=True)
    plain.action_space.seed(1)
    for seed in range(12):
        last, there = compiled.reset(seed=seed), plain.reset(seed=seed)
        ended = False
        while not ended:
            assert np.array_equal(last[0], there[0])
            assert all(np.array_equal(last[-1][name], there[-1][name]) for name in there[-1])
            action = plain.action_space.sample()
            last, there = compiled.step(action), plain.step(action)
            assert last[1:4] == there[1:4]
            ended = there[2] or there[3]


def test_other_tables_stay_when_a_form_is_pickled() -> None:
    class Sloped(Race):
        tables = {"slopes": np.zeros(3)}

    form = TwoPlayerWorld(Sloped()).with_tables(slopes=np.ones(5))
    maker, (world, values) = form.__reduce__()
    assert form.tables["slopes"].shape == maker(world, values).tables["slopes"].shape == (5,)
