"""Turn-based games of PettingZoo as agent rows: whose move counts, whose reward is whose."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rookery
import rookery.pettingzoo

pytest.importorskip("pettingzoo")
pytest.importorskip("pygame")


def tictactoe():
    from pettingzoo.classic import tictactoe_v3

    return tictactoe_v3.env()


@pytest.fixture
def envs():
    made = rookery.pettingzoo.make_vec(tictactoe, num_envs=2, backend="serial")
    yield made
    made.close()


def test_only_the_move_of_the_agent_whose_turn_it_is_counts(envs):
    observations, _ = envs.reset(seed=1)
    mask = observations["action_mask"]
    assert mask[0].all() and mask[2].all()  # the first player of both worlds
    assert mask[1].tolist() == mask[3].tolist() == [1] + [0] * 8
    observations, *_ = envs.step([4, 0, 8, 0])
    mask = observations["action_mask"]
    assert mask[1].tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1] and mask[3, 8] == 0
    assert mask[0].tolist() == [1] + [0] * 8


def test_rewards_go_to_the_right_player(envs):
    """World 0: the first player wins with 0, 1, 2. World 1: the second one does, with 3, 4, 5."""
    envs.reset(seed=1)
    moves = [(0, 0), (3, 3), (1, 1), (4, 4), (2, 8)]  # of the agent whose turn it is, in each world
    for number, (one, two) in enumerate(moves):
        mover = number % 2
        actions = np.zeros(4, int)
        actions[mover], actions[2 + mover] = one, two
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        assert not truncated.any()
    assert rewards.tolist() == [1.0, -1.0, 0.0, 0.0]
    assert terminated.tolist() == [True, True, False, False]
    assert infos["final_obs"][0]["observation"].sum() == 5 and infos["final_obs"][2] is None
    assert observations["action_mask"][0].all()  # a new game has begun, and its first player is to move
    observations, rewards, terminated, *_ = envs.step([8, 0, 0, 5])
    assert rewards.tolist() == [0.0, 0.0, -1.0, 1.0] and terminated.tolist() == [False, False, True, True]


def test_random_games_are_pettingzoos_own(envs):
    """Against the loop that PettingZoo's documentation shows: the same rewards in the same games."""
    random = np.random.default_rng(3)
    observations, _ = envs.reset(seed=1)
    reference = tictactoe()
    reference.reset(seed=1)
    finished = 0
    for _ in range(60):
        mask = observations["action_mask"]
        actions = np.array([random.choice(np.flatnonzero(row)) for row in mask])
        mover = reference.agent_selection
        reference.step(int(actions[0 if mover == "player_1" else 1]))
        observations, rewards, terminated, _, _ = envs.step(actions)
        assert rewards[:2].tolist() == [reference.rewards[a] for a in ("player_1", "player_2")]
        if terminated[0]:
            finished += 1
            reference.reset()
    assert finished > 3


def test_self_play(tmp_path, envs):
    """One policy plays both sides; moves that the game forbids are never made, or the game would end with -1."""
    result = rookery.train(
        envs, steps=256, runs_dir=str(tmp_path), learner="ppo", monitor={"panel": False, "plot": False},
        ppo={"rollout_length": 16, "epochs": 1, "hidden": [8], "threads": 1, "accelerate": False},
        evaluation={"episodes": 1, "every": 10_000}, verbose=False,
    )  # fmt: skip
    episodes = [json.loads(line) for line in Path(result.path, "episodes.jsonl").read_text().splitlines()]
    assert len(episodes) > 10 and {line["return"] for line in episodes} <= {-1.0, 0.0, 1.0}
    assert min(line["length"] for line in episodes) >= 5  # no game of tic-tac-toe is shorter
    observations, _ = envs.reset(seed=2)
    agent = rookery.load(result.path)
    assert agent.act(observations, deterministic=True)[1] == 0  # the only action that its mask allows
