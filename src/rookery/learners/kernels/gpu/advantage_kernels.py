"""Generalised advantage estimation as one Triton kernel: in torch it is four small kernels for each step."""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rookery.learners.kernels.gpu.triton_support import block_size, tiles


@triton.jit(do_not_specialize=["steps", "envs"])
def backward_sums(deltas, ended, advantages, steps, envs, factor, BLOCK: tl.constexpr):
    """From the last step to the first: a step's delta, and the discounted sum of later ones. Grid: blocks of envs."""
    env = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = env < envs
    carried = tl.zeros((BLOCK,), tl.float32)
    at = (steps - 1) * envs.to(tl.int64) + env
    for _ in range(steps):
        has_ended = tl.load(ended + at, mask=inside, other=0) != 0
        carried = tl.load(deltas + at, mask=inside, other=0.0) + tl.where(has_ended, 0.0, factor * carried)
        tl.store(advantages + at, carried, mask=inside)
        at -= envs


def advantages_on_device(
    rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, ended: Tensor, gamma: float, lam: float
) -> Tensor:
    """As `ppo.gae`."""
    deltas = (rewards + gamma * next_values * ~terminated - values).contiguous()
    advantages, block = torch.empty_like(deltas), block_size(64, 16)
    steps, envs = deltas.shape
    backward_sums[(tiles(envs, block),)](
        deltas, ended.contiguous().view(torch.uint8), advantages, steps, envs, gamma * lam, BLOCK=block, num_warps=2
    )
    return advantages
