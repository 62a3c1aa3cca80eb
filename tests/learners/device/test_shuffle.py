"""The order of samples on a GPU: a bijection by a key, the same by torch and by Triton."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from rookery.learners.kernels.gpu.shuffle import draw_key, sample_order, shuffled_order

KERNEL_ORDERS = """
import tests.learners.triton_interpreter
import torch
from rookery.learners.kernels.gpu.shuffle import ROUNDS, shuffle_by_torch
from rookery.learners.kernels.gpu.rollout_kernels import shuffle_on_device
keys = torch.tensor([5, 2**31 - 2])
for count in (1, 7, 600):
    orders = shuffle_on_device(count, keys, torch.int64, ROUNDS)
    assert all(torch.equal(order, shuffle_by_torch(count, key)) for order, key in zip(orders, keys)), count
"""


@pytest.mark.parametrize("count", [1, 2, 3, 1000, 4096])
def test_every_number_appears_once(count: int) -> None:
    order = shuffled_order(count, torch.tensor([count * 7919]))
    assert torch.equal(order.sort().values, torch.arange(count))


def test_keys_give_other_orders_and_neighbours_part() -> None:
    first, second = (shuffled_order(4096, torch.tensor([key])) for key in (1, 2))
    assert (first == second).float().mean() < 0.01
    assert (first.diff().abs() == 1).float().mean() < 0.01
    quarters = torch.bincount(first[:1024] // 1024, minlength=4)  # a minibatch has samples of all steps
    assert quarters.min() > 190


def test_on_a_cpu_orders_are_those_of_randperm() -> None:
    first, second = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    assert torch.equal(sample_order(50, first), torch.randperm(50, generator=second))


def test_a_key_follows_the_generator() -> None:
    keys = [draw_key(torch.Generator().manual_seed(9)) for _ in range(2)]
    assert torch.equal(*keys)
    assert keys[0].shape == (1,)


@pytest.mark.slow
def test_the_kernel_gives_the_same_orders() -> None:
    """In a process of its own: the interpreter must be chosen before Triton is imported."""
    pytest.importorskip("triton")
    subprocess.run([sys.executable, "-W", "ignore", "-c", KERNEL_ORDERS], check=True)
