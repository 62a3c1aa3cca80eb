"""A random order of samples without sorting: a bijection of the numbers 0..count-1 that a key chooses.

It is the swap-or-not shuffle (Hoang, Morris and Rogaway, 2012). In each round every number has a partner, and a hash of
the pair decides whether the two change places. Numbers are independent of each other, so that a GPU computes all at
once, and the plain form and the Triton kernel give the same order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.learners.kernels.gpu.triton_support import find_triton

ROUNDS = 16  # two numbers keep their distance with a probability of 2 ** -16
LARGEST = 2**31 - 1  # numbers that can be shuffled, and keys
WORD = 0xFFFFFFFF


def draw_key(generator: torch.Generator) -> Tensor:
    """A key for one order, on the generator's device."""
    return torch.randint(LARGEST, (1,), generator=generator, device=generator.device)


def sample_order(count: int, generator: torch.Generator) -> Tensor:
    """The numbers 0..count-1 in a random order, on the generator's device: by a sort on a CPU, by a key elsewhere."""
    if generator.device.type == "cpu":
        return torch.randperm(count, generator=generator)
    return shuffled_order(count, draw_key(generator))


def shuffled_order(count: int, key: Tensor) -> Tensor:
    """The numbers 0..count-1 in the order of this key, int64 [count], on the key's device.

    >>> sorted(shuffled_order(5, torch.tensor([7])).tolist())
    [0, 1, 2, 3, 4]
    """
    if key.is_cuda and find_triton():
        from rookery.learners.kernels.gpu.rollout_kernels import shuffle_on_device

        return shuffle_on_device(count, key.reshape(1), torch.int64, ROUNDS)[0]
    return shuffle_by_torch(count, key)


def shuffle_by_torch(count: int, key: Tensor) -> Tensor:
    """`shuffled_order` by plain tensor operations."""
    x = torch.arange(count, device=key.device)
    for number in range(ROUNDS):
        salt = _mixed(key.reshape(()) + number * 0x9E3779B1 & WORD)
        partner = salt % count - x
        partner = torch.where(partner < 0, partner + count, partner)
        hashed = _mixed(torch.maximum(x, partner) ^ salt)
        x = torch.where(hashed >> 31 == 1, partner, x)
    return x


def _mixed(x: Tensor) -> Tensor:
    """A hash of 32-bit words."""
    x = (x ^ x >> 16) * 0x7FEB352D & WORD
    x = (x ^ x >> 15) * 0x846CA68B & WORD
    return x ^ x >> 16
