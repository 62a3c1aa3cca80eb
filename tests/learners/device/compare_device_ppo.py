"""Fused PPO or PQN by Triton's interpreter beside the plain one, as a program: its arguments are a case and how many
updates. Triton is imported after its interpreter was chosen."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import tests.learners.triton_interpreter  # noqa: F401
import torch
from gymnasium import spaces

from rookery.learners import rollout
from rookery.learners.kernels.gpu.fused_device_ppo import DevicePPO, DevicePQN
from rookery.learners.kernels.gpu.shuffle import draw_key, shuffled_order
from rookery.learners.learner import StepBatch, TensorFinals
from rookery.learners.registry import make_learner, option_classes

ENVS, STEPS = 6, 4
DEFAULTS = {"rollout_length": STEPS, "epochs": 2, "minibatches": 2, "hidden": [20, 9], "precision": "float32"}
VECTOR = spaces.Box(-9, 9, (5,), np.float32)
DISCRETE, CONTINUOUS = spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)
# Spaces and options; "masks" and "learner" are none.
CASES: dict[str, tuple[spaces.Space, spaces.Space, dict[str, Any]]] = {
    "quick": (VECTOR, CONTINUOUS, {"entropy": 0.01, "clip_values": 0.2, "epochs": 1}),
    "categorical": (VECTOR, DISCRETE, {"entropy": 0.01}),
    "start": (VECTOR, spaces.Discrete(3, start=-1), {"batch_size": 10}),
    "masks": (VECTOR, spaces.Discrete(4), {"masks": True}),
    "multi": (VECTOR, spaces.MultiDiscrete([3, 2], start=[1, 0]), {"entropy": 0.02, "masks": True}),
    "bernoulli": (VECTOR, spaces.MultiBinary(3), {"entropy": 0.01}),
    "gaussian": (VECTOR, CONTINUOUS, {"entropy": 0.01, "clip_values": 0.2}),
    "normalised": (VECTOR, DISCRETE, {"normalise_observations": True, "normalise_rewards": True}),
    "target_kl": (VECTOR, DISCRETE, {"target_kl": 1e-9, "epochs": 3}),
    "choices": (spaces.Discrete(7), DISCRETE, {"normalise_advantages": False}),
    "dict": (spaces.Dict(a=VECTOR, b=spaces.Discrete(2)), DISCRETE, {"epochs": 1}),
    "one_layer": (VECTOR, DISCRETE, {"hidden": [17], "activation": "relu"}),
    "three_layers": (VECTOR, DISCRETE, {"hidden": [17, 8, 20], "activation": "silu"}),
    "wide": (VECTOR, CONTINUOUS, {"hidden": [160, 130]}),
    "wide_silu": (VECTOR, DISCRETE, {"hidden": [130, 150], "activation": "silu"}),
    "elu": (VECTOR, CONTINUOUS, {"activation": "elu"}),
    "gelu": (VECTOR, DISCRETE, {"activation": "gelu"}),
    "pqn": (VECTOR, spaces.Discrete(3, start=1), {"learner": "pqn", "epochs": 1}),
    "pqn_multi": (VECTOR, spaces.MultiDiscrete([3, 2]), {"learner": "pqn", "masks": True, "normalise_rewards": True}),
    "pqn_layers": (VECTOR, DISCRETE, {"learner": "pqn", "hidden": [17, 8, 20], "activation": "silu"}),
}


def sample(space: spaces.Space, generator: torch.Generator) -> Any:
    """Observations of all envs."""
    if isinstance(space, spaces.Dict):
        return {key: sample(part, generator) for key, part in space.items()}
    if isinstance(space, spaces.Discrete):
        return torch.randint(int(space.n), (ENVS,), generator=generator)
    return torch.randn(ENVS, *space.shape, generator=generator) * 2 + 0.5


def allowed(head: Any, generator: torch.Generator) -> torch.Tensor:
    """Random masks that allow the first choice of each part."""
    mask = torch.rand(ENVS, head.outputs, generator=generator) > 0.4
    mask[:, [0, *np.cumsum(getattr(head, "sizes", [0]))[:-1]]] = True
    return mask


class Trial:
    """A learner that makes random steps."""

    def __init__(self, case: str, fused: bool) -> None:
        self.space, actions, given = CASES[case]
        options = DEFAULTS | given
        self.masks = options.pop("masks", False)
        name = options.pop("learner", "ppo")
        settings = option_classes()[name](**options, accelerate=False)
        self.learner = make_learner(name, self.space, actions, settings, ENVS, seed=3)
        kind = DevicePQN if name == "pqn" else DevicePPO
        if fused:
            assert kind.fits(self.learner)
            self.learner.accelerator = kind(self.learner)
        self.generator = torch.Generator().manual_seed(1)
        self.observations = sample(self.space, self.generator)
        self.mask = allowed(self.learner.head, self.generator) if self.masks else None

    def step(self) -> None:
        learner, generator, rows = self.learner, self.generator, slice(0, ENVS)
        learner.explore(self.observations, rows, self.mask)
        self.observations, finals = sample(self.space, generator), sample(self.space, generator)
        terminated, truncated = (torch.rand(ENVS, generator=generator) < 0.2 for _ in range(2))
        rewards, ends = torch.randn(ENVS, generator=generator), TensorFinals(terminated | truncated, finals)
        self.mask = allowed(learner.head, generator) if self.masks else None
        learner.record(rows, StepBatch(self.observations, rewards, terminated, truncated, ends, self.mask))

    def update(self) -> dict[str, float]:
        for _ in range(STEPS):
            self.step()
        return self.learner.update()


def compare(case: str, updates: int) -> None:
    rollout.sample_order = lambda count, generator: shuffled_order(count, draw_key(generator))  # as on a GPU
    plain, fused = Trial(case, fused=False), Trial(case, fused=True)
    for _ in range(updates):
        its, mine = plain.update(), fused.update()
        np.testing.assert_allclose([mine[name] for name in its], list(its.values()), rtol=2e-3, atol=2e-5)
    torch.testing.assert_close(fused.learner.adam.flat, plain.learner.adam.flat, rtol=1e-4, atol=2e-6)
    torch.testing.assert_close(fused.learner.adam.steps, plain.learner.adam.steps)
    if (
        getattr(plain.learner.options, "target_kl", None) is None
    ):  # after a stop, the plain loop has drawn fewer orders of minibatches
        compare_unfinished(plain, fused)


def compare_unfinished(plain: Trial, fused: Trial) -> None:
    """A checkpoint in the middle of a rollout has every step that was recorded."""
    for trial in (plain, fused):
        trial.step()
        trial.step()
    expected, found = (trial.learner.state()["rollout"] for trial in (plain, fused))
    assert expected["clocks"] == found["clocks"]
    cut = expected["arrays"]["ended"] & ~expected["arrays"]["terminated"]
    for state in (expected, found):
        state["arrays"]["final_values"][~cut] = 0.0  # values after episodes that were not truncated mean nothing
    for name, array in expected["arrays"].items():
        np.testing.assert_allclose(found["arrays"][name][:2], array[:2], rtol=1e-4, atol=1e-5, err_msg=name)


if __name__ == "__main__":
    compare(sys.argv[1], int(sys.argv[2]))
