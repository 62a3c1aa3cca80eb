"""Accelerated and plain runs agree over many updates, to float tolerance, through the public interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners import offpolicy_tools as replayed
from learners.scripted import Script, play
from rookery.lazy import load_object
from rookery.learners.accelerator import Accelerator
from rookery.learners.algorithms.dqn import DQN
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.algorithms.pqn import PQN
from rookery.learners.algorithms.sac import SAC
from rookery.learners.algorithms.td3 import TD3
from rookery.learners.execution.choose import ACCELERATORS
from rookery.learners.kernels.cpu.fused_dqn import FusedDQN
from rookery.learners.kernels.cpu.fused_ppo import CompiledAdvantages, FusedPPO
from rookery.learners.kernels.cpu.fused_pqn import FusedPQN
from rookery.learners.kernels.cpu.fused_td3 import FusedTD3
from rookery.learners.kernels.cpu.product_tiles import ARM
from rookery.learners.kernels.cpu.team_sac import TeamSAC
from rookery.learners.kernels.cpu.team_td3 import TeamTD3
from rookery.learners.kernels.gpu.device_actor_critic import DeviceSAC, DeviceTD3
from rookery.learners.learner import Learner
from rookery.learners.registry import DQNOptions, PPOOptions, PQNOptions, SACOptions, TD3Options

UPDATES = 20
SEEN = spaces.Box(-1, 1, (3,))
CONTINUOUS = spaces.Box(-1, 1, (2,))
FORGED = ("__dict__", "__weakref__", "__module__", "__qualname__")  # of a class that is copied


def agree(one: Learner, other: Learner) -> None:
    """Both made the updates, and their weights are the same apart from rounding."""
    assert one.updates == other.updates >= UPDATES
    for (name, mine), its in zip(one.policy.named_parameters(), other.policy.parameters(), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("actions", "choices", "options"),
    [
        (spaces.Discrete(3, start=2), (), {"entropy": 0.01}),
        (spaces.Discrete(3), (3,), {"clip_values": 0.2}),
        (spaces.MultiDiscrete([2, 3]), (), {"normalise_observations": True}),
        (spaces.MultiDiscrete([2, 3]), (2, 3), {"activation": "relu"}),
        (spaces.Discrete(3), (), {"normalise_observations": True}),
        (CONTINUOUS, (), {"normalise_rewards": True}),
        (CONTINUOUS, (), {"normalise_observations": True, "log_std": 0.5}),
        (spaces.Box(-0.5, 1, (2, 2)), (), {}),
        (CONTINUOUS, (), {"recurrent": 5}),
        (spaces.Discrete(3), (3,), {"hidden": [16], "critic_hidden": [32, 8, 24], "normalise_observations": True}),
        (CONTINUOUS, (), {"hidden": [24, 16], "critic_hidden": []}),
        (spaces.Box(-1, 1, (3,)), (), {"share_weights": True, "asset_columns": [0, 1], "normalise_observations": True}),
        (spaces.Box(-1, 1, (4,)), (), {"share_weights": True, "asset_columns": [1, 1], "critic_hidden": [20]}),
        (spaces.Box(-1, 1, (2, 1)), (), {"share_weights": True, "asset_columns": [1, 2], "hidden": []}),
    ],
)
def test_ppo(actions: spaces.Space, choices: tuple[int, ...], options: dict[str, Any]) -> None:
    """For every head with written-out gradients, with masks and without, and where only advantages are compiled."""
    learners, actions_made = [], []
    for accelerate in (True, False):
        given = {"hidden": [16, 16], **options}
        settings = PPOOptions(rollout_length=8, accelerate=accelerate, epochs=2, **given)
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


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("actions", "choices", "options"),
    [
        (spaces.Discrete(3, start=2), (), {"hidden": [20, 9], "normalise_observations": True}),
        (spaces.MultiDiscrete([2, 3]), (2, 3), {"activation": "tanh", "hidden": [17], "max_grad_norm": None}),
        (spaces.Discrete(3), (3,), {"hidden": [], "normalise_rewards": True}),
    ],
)
def test_pqn(actions: spaces.Space, choices: tuple[int, ...], options: dict[str, Any]) -> None:
    """Layer normalisation and its gradient, values of several choices, and masks of the last step."""
    learners = []
    for accelerate in (True, False):
        settings = PQNOptions(rollout_length=8, accelerate=accelerate, epochs=2, **options)
        learner, script = PQN(SEEN, actions, settings, 4, seed=5), Script(SEEN, 4, choices=choices)
        for _ in range(UPDATES):
            play(learner, script, 8)
            metrics = learner.update()
        learners.append((learner, list(metrics.values())))
    assert [type(learner.accelerator) for learner, _ in learners] == [FusedPQN, Accelerator]
    agree(*(learner for learner, _ in learners))
    np.testing.assert_allclose(*(metrics for _, metrics in learners), rtol=1e-3)


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


def actor_critics_agree(made: type[SAC] | type[TD3], wanted: type[Accelerator], given: dict[str, Any]) -> None:
    """Plain and accelerated, weights of all nets and metrics are the same apart from rounding."""
    learners: list[Any] = []
    metrics: list[dict[str, float]] = []
    for accelerate in (True, False):
        options = {"hidden": [16, 16], "batch_size": 16, **given, "accelerate": accelerate}
        settings: Any = (SACOptions if made is SAC else TD3Options)(start_steps=40, updates_per_step=0.25, **options)
        learner: Any = made(spaces.Box(-1, 1, (1,)), spaces.Box(-2, 2, (1,)), settings, 4, seed=5)
        if accelerate:
            learner.accelerator = wanted(learner)
        replayed.play(learner, replayed.Centre(4, 20, 0), 40)
        learners.append(learner)
        learner.execution._shown = {}  # show what is left
        learner.execution.updates_due = 1.0
        metrics.append(learner.update())
    assert [type(learner.accelerator) for learner in learners] == [wanted, Accelerator]
    agree(*learners)
    for name in ("critic_adam", "actor_adam"):
        one, other = (getattr(learner, name) for learner in learners)
        for mine, its in zip((one.flat, *one.moments), (other.flat, *other.moments), strict=True):
            np.testing.assert_allclose(mine.detach(), its.detach(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(*(learner.target_weights for learner in learners), rtol=1e-3, atol=1e-4)
    assert metrics[0].keys() == metrics[1].keys()
    for name, value in metrics[0].items():
        assert value == pytest.approx(metrics[1][name], rel=1e-3, abs=1e-4), name


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.2, "max_grad_norm": 0.5, "activation": "tanh", "batch_size": 33, "hidden": [70, 9, 20]},
        {"normalise_observations": True, "normalise_rewards": True, "n_step": 2, "hidden": []},
        {"hidden": [20], "critic_hidden": [12, 40, 9]},
    ],
)
def test_sac(options: dict[str, Any]) -> None:
    """With a learned temperature and a fixed one, for batches and widths that are not multiples of anything."""
    actor_critics_agree(SAC, TeamSAC, options)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"min_critics": 1, "prioritised": True, "activation": "tanh"},
        {"num_critics": 1, "min_critics": 1, "max_grad_norm": 0.1, "hidden": [40], "batch_size": 50},
        {"redq": True, "num_critics": 3, "policy_delay": 4},
        {"target_every": 3, "policy_delay": 3},
        {"hidden": [12, 40, 9], "critic_hidden": [20]},
    ],
)
def test_td3(options: dict[str, Any]) -> None:
    """With the target of all critics and of a random few, with importance weights and without."""
    actor_critics_agree(TD3, TeamTD3, options)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options", [{}, {"min_critics": 1, "prioritised": True, "activation": "tanh"}, {"critic_hidden": [20, 9, 12]}]
)
def test_td3_of_two_critics_by_products_of_torch(options: dict[str, Any]) -> None:
    """Where products are not compiled."""
    actor_critics_agree(TD3, FusedTD3, options)


@pytest.mark.parametrize("made", [SAC, TD3])
def test_actor_critics_have_their_accelerators(made: type[SAC] | type[TD3]) -> None:
    """On a team of threads where that was measured; with images before the nets, or activations that are not compiled,
    plain."""
    images = spaces.Box(0, 255, (16, 16, 3), np.uint8)
    settings: Any = SACOptions if made is SAC else TD3Options
    elsewhere = Accelerator if made is SAC else FusedTD3
    team = TeamSAC if made is SAC else TeamTD3
    assert type(made(SEEN, CONTINUOUS, settings(hidden=[8]), 2).accelerator) is (team if ARM else elsewhere)
    for seen, options in ((images, {}), (SEEN, {"activation": "silu"})):
        assert type(made(seen, CONTINUOUS, settings(hidden=[8], **options), 2).accelerator) is Accelerator


@pytest.mark.few(1)
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


class Renamed(PPO):
    """Overrides nothing that an accelerator stands for."""

    def update(self) -> dict[str, float]:
        return super().update() | {"mine": 1.0}


class OtherLoss(PPO):
    """Has a loss of its own, which no compiled code computes."""

    def loss(self, *args: Any, **kwargs: Any) -> Any:
        loss, parts = super().loss(*args, **kwargs)
        return 2.0 * loss, parts


class OtherAdvantages(PPO):
    """Has advantages of its own."""

    def advantages(self, *outcome: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(outcome[0])


def test_a_subclass_keeps_the_accelerators_of_the_methods_that_it_inherits() -> None:
    """One that stands for an overridden method is left out, and the next one is taken."""
    settings = PPOOptions(rollout_length=8, hidden=[8], epochs=1)
    learner = Renamed(SEEN, CONTINUOUS, settings, 4)
    assert type(learner.accelerator) is FusedPPO
    play(learner, Script(SEEN, 4), 8)
    assert learner.update()["mine"] == 1.0
    assert type(OtherLoss(SEEN, CONTINUOUS, settings, 4).accelerator) is CompiledAdvantages
    own = OtherAdvantages(SEEN, CONTINUOUS, settings, 4)
    assert type(own.accelerator) is Accelerator
    play(own, Script(SEEN, 4), 8)
    assert not own.evaluate_rollout()["advantages"].any()

    class OtherTarget(SAC):
        def td_target(self, batch: Any, noise: torch.Tensor) -> torch.Tensor:
            return batch.rewards

    assert type(OtherTarget(SEEN, CONTINUOUS, SACOptions(hidden=[8]), 2).accelerator) is Accelerator


def test_a_class_that_is_merely_named_as_ours_has_no_accelerator() -> None:
    """The class itself counts, and not its name."""
    stranger = type("PPO", (Learner,), {name: value for name, value in vars(PPO).items() if name not in FORGED})
    assert stranger.__name__ == "PPO"
    assert type(stranger(SEEN, CONTINUOUS, PPOOptions(hidden=[8]), 4).accelerator) is Accelerator


def test_what_an_accelerator_replaces_are_methods_of_its_algorithm() -> None:
    """Every name that one stands for exists there, and it brings some of them, or whole updates."""
    for path, names in ACCELERATORS.items():
        algorithm = load_object(path)
        for name in names:
            accelerator = load_object(f"rookery.learners.{name}")
            assert all(callable(getattr(algorithm, method, None)) for method in accelerator.replaces), name
            brought = {method for method in accelerator.replaces if method in dir(accelerator)}
            assert brought or accelerator.update is not Accelerator.update, name
