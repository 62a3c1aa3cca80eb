"""`shuffle.py` as a Triton kernel: the same numbers."""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rookery.learners.kernels.gpu.triton_support import tiles

BLOCK = 2048


@triton.jit
def mixed(x):
    """A hash of 32-bit words."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit(do_not_specialize=["count"])
def shuffle(order, keys, count, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """One order for each key. [keys, count]"""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + tl.program_id(1)).to(tl.uint32)
    size = count.to(tl.uint32)
    x = column.to(tl.uint32)
    for number in tl.static_range(ROUNDS):
        salt = mixed(key + (number * 0x9E3779B1) % 4294967296)
        partner = salt % size + size - x
        partner = tl.where(partner >= size, partner - size, partner)
        hashed = mixed(tl.maximum(x, partner) ^ salt)
        x = tl.where((hashed >> 31) == 1, partner, x)
    row = order + tl.program_id(1).to(tl.int64) * count
    tl.store(row + column, x.to(order.dtype.element_ty), mask=column < count)


def shuffle_on_device(count: int, keys: Tensor, dtype: torch.dtype, rounds: int) -> Tensor:
    """The order of each key, [keys, count]."""
    order = torch.empty(len(keys), count, dtype=dtype, device=keys.device)
    shuffle[(tiles(count, BLOCK), len(keys))](order, keys, count, rounds, BLOCK)
    return order
