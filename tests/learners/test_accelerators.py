"""Accelerated and plain runs agree over many updates, to float tolerance, through the public interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners import offpolicy_tools as replayed
from learners.scripted import Script, play
from rookery.learners.device.device_actor_critic import DeviceSAC, DeviceTD3
from rookery.learners.dqn import DQN
from rookery.learners.fast.accelerator import Accelerator
from rookery.learners.fast.fused_dqn import FusedDQN
from rookery.learners.fast.fused_ppo import CompiledAdvantages, FusedPPO
from rookery.learners.fast.fused_td3 import FusedTD3
from rookery.learners.learner import Learner
from rookery.learners.ppo import PPO
from rookery.learners.registry import DQNOptions, PPOOptions, SACOptions, TD3Options
from rookery.learners.sac import SAC
from rookery.learners.td3 import TD3

UPDATES = 20
SEEN = spaces.Box(-1, 1, (3,))
CONTINUOUS = spaces.Box(-1, 1, (2,))


def agree(one: Learner, other: Learner) -> None:
    """Both made the updates, and their weights are the same apart from rounding."""
    assert one.updates == other.updates >= UPDATES
    for (name, mine), its in zip(one.policy.named_parameters(), other.policy.parameters(), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize(
    ("actions", "choices", "options"),
    [
        (spaces.Discrete(3, start=2), (), {"entropy": 0.01}),
        (spaces.Discrete(3), (3,), {"clip_values": 0.2}),
        (spaces.MultiDiscrete([2, 3]), (), {"normalise_observations": True}),
        (spaces.MultiDiscrete([2, 3]), (2, 3), {"activation": "relu"}),
        (CONTINUOUS, (), {"normalise_rewards": True}),
        (CONTINUOUS, (), {"recurrent": 5}),
    ],
)
def test_ppo(actions: spaces.Space, choices: tuple[int, ...], options: dict[str, Any]) -> None:
    """For every head with written-out gradients, with masks and without, and where only advantages are compiled."""
    learners, actions_made = [], []
    for accelerate in (True, False):
        settings = PPOOptions(rollout_length=8, hidden=[16, 16], accelerate=accelerate, epochs=2, **options)
        learner, script = PPO(SEEN, actions, settings, 4, seed=5), Script(SEEN, 4, choices=choices)
        made = []
        for _ in range(UPDATES):
            made += play(learner, script, 8)
            metrics = learner.update()
        assert all(np.isfinite(value) for value in metrics.values())
        learners.append(learner)
        actions_made.append(np.array(made))
    wanted = CompiledAdvantages if "recurrent" in options else FusedPPO
    assert [type(learner.accelerator) for learner in learners] == [wanted, Accelerator]
    agree(*learners)
    np.testing.assert_allclose(*actions_made, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("options", [{}, {"double": False, "dueling": False, "prioritised": False, "loss": "squared"}])
def test_dqn(options: dict[str, Any]) -> None:
    """With all improvements, and without."""
    learners = []
    for accelerate in (True, False):
        settings = DQNOptions(
            hidden=[16, 16], start_steps=40, batch_size=16, updates_per_step=0.25, accelerate=accelerate, **options
        )
        learner = DQN(spaces.Box(-1, 1, (1,)), spaces.Discrete(2), settings, 4, seed=5)
        replayed.play(learner, replayed.Corridor(4, 20, 0), 40)
        learners.append(learner)
    assert [type(learner.accelerator) for learner in learners] == [FusedDQN, Accelerator]
    agree(*learners)


def test_sac() -> None:
    """SAC's only accelerated part is the compiled step of Adam."""
    learners = []
    for accelerate in (True, False):
        settings = SACOptions(
            hidden=[16, 16], start_steps=40, batch_size=16, updates_per_step=0.25, accelerate=accelerate
        )
        learner = SAC(spaces.Box(-1, 1, (1,)), spaces.Box(-2, 2, (1,)), settings, 4, seed=5)
        replayed.play(learner, replayed.Centre(4, 20, 0), 40)
        learners.append(learner)
    agree(*learners)
    np.testing.assert_allclose(*(learner.critic_adam.flat.detach() for learner in learners), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"min_critics": 1, "prioritised": True, "activation": "tanh"}])
def test_td3(options: dict[str, Any]) -> None:
    """With the target of both critics and of a random one, with importance weights and without."""
    learners = []
    for accelerate in (True, False):
        settings = TD3Options(
            hidden=[16, 16], start_steps=40, batch_size=16, updates_per_step=0.25, accelerate=accelerate, **options
        )
        learner = TD3(spaces.Box(-1, 1, (1,)), spaces.Box(-2, 2, (1,)), settings, 4, seed=5)
        replayed.play(learner, replayed.Centre(4, 20, 0), 40)
        learners.append(learner)
    assert [type(learner.accelerator) for learner in learners] == [FusedTD3, Accelerator]
    agree(*learners)
    np.testing.assert_allclose(*(learner.critic_adam.flat.detach() for learner in learners), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["sac", "sac-fixed", "td3", "redq"])
def test_gradients_from_the_outputs_on(kind: str) -> None:
    """The accelerators of GPUs, here on a CPU: with a learned temperature and a fixed one, with weights and without."""
    shared = {"hidden": [16, 16], "start_steps": 40, "batch_size": 16, "updates_per_step": 0.25, "max_grad_norm": 1.0}
    options: SACOptions | TD3Options
    if kind.startswith("sac"):
        options = SACOptions(**shared, temperature=0.2 if kind == "sac-fixed" else "auto")
    else:
        more = {"redq": True, "num_critics": 3} if kind == "redq" else {"prioritised": True}
        options = TD3Options(**{**more, **shared})
    learners = []
    for accelerator in (Accelerator, DeviceSAC if kind.startswith("sac") else DeviceTD3):
        made = SAC if kind.startswith("sac") else TD3
        learner = made(spaces.Box(-1, 1, (1,)), spaces.Box(-2, 2, (1,)), options, 4, seed=5)  # type: ignore[arg-type]
        assert not accelerator.supports(learner) or accelerator is Accelerator
        learner.accelerator = accelerator(learner)
        replayed.play(learner, replayed.Centre(4, 20, 0), 40)
        learners.append(learner)
    agree(*learners)
    np.testing.assert_allclose(*(learner.critic_adam.flat.detach() for learner in learners), rtol=1e-3, atol=1e-4)
