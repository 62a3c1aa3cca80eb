"""One function per row of the learners' table: steps or updates a second, beside Stable-Baselines3's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env

import rookery
from at_work import AtWork
from engine_rows import Row, ratio_row
from measure import in_turns
from rookery.learners.learner_spec import Options
from rookery.learners.registry import DQNOptions, PPOOptions, SACOptions, TD3Options, make_learner

CORES = torch.get_num_threads()
NETS = {"policy_kwargs": {"net_arch": [64, 64]}, "device": "cpu", "verbose": 0, "seed": 1}


def ours(world: str, learner: str, options: Options, num_envs: int, backend: str) -> AtWork:
    """A learner on a world, as in a run."""
    envs = rookery.make_vec(world, num_envs, backend, autoreset_mode="SameStep", copy=False)
    spaces = envs.single_observation_space, envs.single_action_space
    return AtWork(envs, make_learner(learner, *spaces, options, num_envs, 1, "cpu"), learner)


def theirs(model: Any, steps: int) -> Callable[[], float]:
    """A turn of SB3: steps a second, with one thread or torch's own number of them, whichever suits it better."""

    def turn(threads: int) -> float:
        torch.set_num_threads(threads)
        before, started = model.num_timesteps, time.perf_counter()
        model.learn(steps, reset_num_timesteps=False)
        return (model.num_timesteps - before) / (time.perf_counter() - started)

    turn(1)
    best = max((1, CORES), key=turn)
    return lambda: turn(best)


def sb3_ppo() -> PPO:
    """The setting of PEERS: 8 envs x 256 steps, 4 epochs, batches of 256, two 64x64 nets."""
    return PPO("MlpPolicy", make_vec_env("CartPole-v1", 8), n_steps=256, batch_size=256, n_epochs=4, **NETS)


def ppo_rows(rounds: int) -> list[Row]:
    """PPO with the same net, envs, rollout, batch and epochs."""
    options = PPOOptions(rollout_length=256, minibatches=8, epochs=4)
    sides = {
        "kernel": ours("rookery/CartPole-v1", "ppo", options, 8, "kernel").side(8192),
        "gymnasium": ours("CartPole-v1", "ppo", options, 8, "serial").side(4096),
        "sb3": theirs(sb3_ppo(), 2048),
    }
    found = in_turns(sides, rounds)
    return [
        ratio_row("PPO steps/s, kernel CartPole, 8 x 256 / SB3", found["kernel"], found["sb3"], 8),
        ratio_row("PPO steps/s, Gymnasium's CartPole, 8 x 256 / SB3", found["gymnasium"], found["sb3"], 3),
    ]


def ppo_wide_rows(rounds: int) -> list[Row]:
    """PPO in the setting in which PureJaxRL was measured, against SB3 in its own."""
    options = PPOOptions(rollout_length=128, minibatches=4, epochs=4)
    sides = {
        "ours": ours("rookery/CartPole-v1", "ppo", options, 64, "kernel").side(8 * 8192),
        "sb3": theirs(sb3_ppo(), 2048),
    }
    found = in_turns(sides, rounds)
    return [ratio_row("PPO steps/s, kernel CartPole, 64 x 128 / SB3 at 8 x 256", found["ours"], found["sb3"], 20)]


def sac_rows(rounds: int) -> list[Row]:
    """SAC with one update for each step, batches of 256, nets of 256x256."""
    options = SACOptions(batch_size=256, hidden=[256, 256], start_steps=256)
    model = SAC(
        "MlpPolicy", make_vec_env("Pendulum-v1", 1), batch_size=256, learning_starts=256, device="cpu", seed=1,
        policy_kwargs={"net_arch": [256, 256]},
    )  # fmt: skip
    sides = {"ours": ours("rookery/Pendulum-v1", "sac", options, 1, "kernel").side(300), "sb3": theirs(model, 300)}
    found = in_turns(sides, rounds)
    return [ratio_row("SAC updates/s, Pendulum, one a step / SB3", found["ours"], found["sb3"], 1.3)]


def td3_rows(rounds: int) -> list[Row]:
    """TD3 with one update for each step, batches of 256, nets of 256x256."""
    options = TD3Options(batch_size=256, hidden=[256, 256], start_steps=256)
    model = TD3(
        "MlpPolicy", make_vec_env("Pendulum-v1", 1), batch_size=256, learning_starts=256, device="cpu", seed=1,
        policy_kwargs={"net_arch": [256, 256]},
    )  # fmt: skip
    sides = {"ours": ours("rookery/Pendulum-v1", "td3", options, 1, "kernel").side(300), "sb3": theirs(model, 300)}
    found = in_turns(sides, rounds)
    return [ratio_row("TD3 updates/s, Pendulum, one a step / SB3", found["ours"], found["sb3"], 1.3)]


def dqn_rows(rounds: int) -> list[Row]:
    """DQN as SB3 has it by default: an update for every four steps, batches of 32, 64x64 nets. Ours is dueling, double,
    three steps deep and prioritised besides."""
    options = DQNOptions(batch_size=32, hidden=[64, 64], start_steps=200, updates_per_step=0.25)
    model = DQN(
        "MlpPolicy", make_vec_env("CartPole-v1", 1), batch_size=32, learning_starts=200, train_freq=4,
        gradient_steps=1, device="cpu", seed=1,
    )  # fmt: skip
    sides = {
        "many": ours("rookery/CartPole-v1", "dqn", options, 8, "kernel").side(4000),
        "one": ours("rookery/CartPole-v1", "dqn", options, 1, "kernel").side(1500),
        "sb3": theirs(model, 1500),
    }
    found = in_turns(sides, rounds)
    return [
        ratio_row("DQN steps/s, kernel CartPole, 8 envs / SB3, train_freq 4", found["many"], found["sb3"], 3),
        ratio_row("DQN steps/s, kernel CartPole, one env / SB3, train_freq 4", found["one"], found["sb3"], 1),
    ]


ROWS = {"ppo": ppo_rows, "ppo-wide": ppo_wide_rows, "sac": sac_rows, "td3": td3_rows, "dqn": dqn_rows}
