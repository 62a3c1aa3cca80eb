"""Kernel worlds as PettingZoo envs."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from gymnasium import spaces

import rookery
from kernel.samples import Tug, Walker
from rookery.engine.seeding import env_seeds
from rookery.errors import OptionError, SpaceError, UsageError, WorldError
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.parallel_env import KernelParallelEnv
from rookery.kernel.world import KernelWorld
from rookery.worlds.hockey.world import Hockey, HockeyRows

with warnings.catch_warnings():  # where there is pygame, PettingZoo's tests import old names of PettingZoo's own games
    warnings.simplefilter("ignore", DeprecationWarning)
    from pettingzoo.test import parallel_api_test, parallel_seed_test


class Cards(KernelWorld):
    """Two agents with names, choosing from masks, who see one of a few things."""

    observation_space = spaces.Discrete(5)
    action_space = spaces.Discrete(3)
    num_agents = 2
    agent_names = ("dealer", "guest")
    state = {"top": "i4", "pile": ("i4", (2,))}
    parameters = {"rounds": 4}

    @staticmethod
    def reset(state):
        state.top = 1

    @staticmethod
    def step(state, action, params, rewards):
        state.top = (state.top + action[0] + 2 * action[1]) % 5
        state.pile[0] = action[0]
        state.pile[1] = action[1]
        rewards[0] = 1.0
        rewards[1] = 0.0
        return state.steps + 1 >= params.rounds

    @staticmethod
    def observe(state, out, agent):
        out[0] = (state.top + agent) % 5

    @staticmethod
    def action_mask(state, out, agent):
        for k in range(3):
            out[k] = k <= agent + 1


@pytest.mark.push("Tug-True", "Tug-False")
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("world", [Tug, Cards])
def test_pettingzoos_own_checks_pass(world, plain):
    """The parallel API test and the seed test of PettingZoo, compiled and in plain Python."""
    parallel_api_test(KernelParallelEnv(world, plain=plain), num_cycles=60)
    parallel_seed_test(lambda: KernelParallelEnv(world, plain=plain), num_cycles=60)


@pytest.mark.parametrize("plain", [pytest.param(False, marks=pytest.mark.slow), True])
def test_hockey_passes_pettingzoos_checks(plain):
    """The same for hockey, whose agents have names."""
    env = KernelParallelEnv(HockeyRows, plain=plain)
    assert env.possible_agents == ["player_one", "player_two"]
    parallel_api_test(env, num_cycles=60)
    parallel_seed_test(lambda: KernelParallelEnv(HockeyRows, plain=plain), num_cycles=60)


def test_each_hockey_player_has_a_row():
    """What both see and get is what the game for two tells of them."""
    joint, rows = KernelEnv(Hockey, plain=True), KernelParallelEnv(HockeyRows, plain=True)
    one, info = joint.reset(seed=1)
    both, _ = rows.reset(seed=1)
    rng = np.random.default_rng(3)
    for _ in range(60):
        assert np.array_equal(both["player_one"], one) and np.array_equal(both["player_two"], info["obs_agent_two"])
        actions = rng.uniform(-1, 1, (2, 4)).astype(np.float32)
        one, reward, *_, info = joint.step(actions.ravel())
        both, rewards, *_ = rows.step(dict(zip(rows.possible_agents, actions, strict=True)))
        assert rewards["player_one"] == reward


def test_same_numbers_as_in_a_batch():
    """With env 0's seed it does what env 0 of a batch does, episode after episode."""
    envs = rookery.make_vec(Tug, 1, backend="kernel", autoreset_mode="same_step")
    alone = KernelParallelEnv(Tug)
    rng = np.random.default_rng(0)
    rows, _ = envs.reset(seed=9)
    seen, _ = alone.reset(seed=env_seeds(9, 1)[0])
    assert np.array_equal(rows, list(seen.values()))
    for _ in range(60):
        actions = rng.uniform(-1, 1, (2, 1)).astype(np.float32)
        rows, *outcomes, infos = envs.step(actions)
        seen, *mine, told = alone.step(dict(zip(alone.agents, actions, strict=True)))
        for theirs, ours in zip(outcomes, mine, strict=True):
            assert theirs.tolist() == list(ours.values())
        if not alone.agents:
            assert np.array_equal(np.stack(list(infos["final_obs"])), list(seen.values()))
            seen, _ = alone.reset()
        else:
            assert [told[agent]["pull"] for agent in alone.agents] == infos["pull"].tolist()
        assert np.array_equal(rows, list(seen.values()))
    envs.close()


@pytest.mark.usefixtures("plain_python")
def test_names_masks_and_state():
    """Agents bear the world's names, masks come with every info, and the state is the world's own fields."""
    env = KernelParallelEnv(Cards)
    seen, infos = env.reset(seed=1)
    assert seen == {"dealer": 1, "guest": 2}
    assert [mask["action_mask"].tolist() for mask in infos.values()] == [[1, 1, 0], [1, 1, 1]]
    _, rewards, _, _, infos = env.step({"dealer": 1, "guest": 2})
    assert rewards == {"dealer": 1.0, "guest": 0.0}
    assert infos["guest"]["action_mask"].tolist() == [1, 1, 1]
    assert env.state().tolist() == [1, 1, 2]
    assert env.state() in env.state_space


@pytest.mark.usefixtures("plain_python")
def test_parameters_are_set_when_made_and_by_options():
    """Both set the world's parameters; those of a reset are kept."""
    env = KernelParallelEnv(Cards, rounds=1)
    env.reset(seed=1)
    env.step({"dealer": 0, "guest": 0})
    assert env.agents == []
    env.reset(options={"rounds": 2, "something_else": 1})
    env.step({"dealer": 0, "guest": 0})
    assert env.agents == ["dealer", "guest"]
    with pytest.raises(OptionError, match="no parameter 'round'; did you mean 'rounds'"):
        KernelParallelEnv(Cards, round=1)


def test_what_cannot_be_served_is_said():
    """Steps outside an episode, missing agents and bad actions are rejected in words."""
    env = KernelParallelEnv(Tug)
    with pytest.raises(UsageError, match="call reset"):
        env.step({})
    env.reset(seed=0)
    with pytest.raises(SpaceError, match="the action of 'agent_1' is missing"):
        env.step({"agent_0": [0.0]})
    with pytest.raises(SpaceError, match=r"the action of 'agent_0', 0\.5, is not in Box"):
        env.step({"agent_0": 0.5, "agent_1": [0.0]})
    with pytest.raises(SpaceError, match="is not in Box"):
        env.step({"agent_0": [2.0], "agent_1": [0.0]})
    with pytest.raises(WorldError, match="Walker has one agent"):
        KernelParallelEnv(Walker)
    with pytest.raises(WorldError, match="Tug has no render_mode 'human'"):
        KernelParallelEnv(Tug, render_mode="human")


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_goes_the_same_way(twin):
    """An env copied in mid-episode goes on as the first does."""
    env = KernelParallelEnv(Tug)
    env.reset(seed=2)
    actions = {"agent_0": [0.5], "agent_1": [0.25]}
    env.step(actions)
    other = twin(env)
    for _ in range(3):
        one, two = env.step(actions), other.step(actions)
        assert str(one) == str(two)


def test_a_missing_pettingzoo_is_named():
    """Without PettingZoo the import says which extra brings it."""
    code = "import sys; sys.modules['pettingzoo'] = None; import rookery.kernel.parallel_env"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingExtra" in answer.stderr and "pip install 'rookery[pettingzoo]'" in answer.stderr
