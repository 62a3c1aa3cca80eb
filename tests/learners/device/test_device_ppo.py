"""Fused PPO and PQN for GPUs equal the plain ones. Their kernels run by Triton's interpreter on a CPU, in a process of
its own: the interpreter must be chosen before Triton is imported."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rookery.learners.algorithms.ppo import PPO
from rookery.learners.registry import PPOOptions

VECTOR = spaces.Box(-1, 1, (5,), np.float32)
CASES = (
    "categorical", "start", "masks", "multi", "bernoulli", "gaussian", "normalised", "target_kl", "choices", "dict",
    "one_layer", "three_layers", "wide", "wide_silu", "elu", "gelu", "pqn_multi", "pqn_layers",
)  # fmt: skip


def compare(case: str, updates: int) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.learners.device.compare_device_ppo", case, str(updates)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["quick", "pqn"])
def test_an_update_equals_the_plain_one(case: str) -> None:
    pytest.importorskip("triton")
    compare(case, 1)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_many_updates_equal_the_plain_ones(case: str) -> None:
    """Under `target_kl` the plain loop draws no more orders after a stop, so that only its first update is the same."""
    pytest.importorskip("triton")
    compare(case, 1 if case == "target_kl" else 20)


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ({}, True),
        ({"hidden": [128, 64, 32]}, True),
        ({"hidden": []}, False),
        ({"hidden": [8, 8, 8, 8]}, False),
        ({"hidden": [4096]}, False),
        ({"recurrent": 8}, False),
    ],
)
def test_it_says_which_policies_it_can_compute(options: dict[str, Any], fits: bool) -> None:
    from rookery.learners.kernels.gpu.fused_device_ppo import DevicePPO

    learner = PPO(VECTOR, spaces.Discrete(2), PPOOptions(**options), 4)
    assert DevicePPO.fits(learner) == fits
    assert not DevicePPO.supports(learner)  # it is on a CPU


def test_images_and_mixed_actions_are_left_to_others() -> None:
    from rookery.learners.kernels.gpu.fused_device_ppo import DevicePPO

    image = spaces.Box(0, 255, (36, 40, 3), np.uint8)
    mixed = spaces.Dict(a=spaces.Discrete(2), b=VECTOR)
    assert not DevicePPO.fits(PPO(image, spaces.Discrete(2), PPOOptions(), 2))
    assert not DevicePPO.fits(PPO(VECTOR, mixed, PPOOptions(), 2))


@pytest.mark.parametrize(
    ("precision", "hidden", "taken"),
    [
        ("bf16", [64, 64], 38_912),
        ("tf32", [64, 64, 64], 106_496),
        ("float32", [64, 64, 64], 75_776),
        ("tf32", [128, 128], 188_416),
        ("float32", [128, 128], 109_568),
        ("bf16", [128, 128, 128], 172_032),
        ("tf32", [128, 128, 128], 319_488),
        ("bf16", [256, 256], 98_304),
        ("tf32", [256, 256], 114_688),
    ],
)
def test_memory_on_the_chip_is_not_underestimated(precision: Any, hidden: list[int], taken: int) -> None:
    """Bytes that the compiler reported for an H200, for observations of 18 numbers."""
    from rookery.learners.kernels.gpu.kernel_shapes import net_shape, shared_memory

    space, options = spaces.Box(-1, 1, (18,), np.float32), PPOOptions(hidden=hidden, precision=precision)
    found = shared_memory(net_shape(PPO(space, spaces.Discrete(2), options, 2)))
    assert taken <= found <= 2 * taken
