"""SAC's samples, actions squashed by tanh and their log-probabilities, by two Triton kernels instead of thirty: at its
sizes on a GPU a kernel costs more than what it computes."""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rookery.learners.kernels.gpu.triton_support import block_size, power_of_two, tiles

ROWS = block_size(64, 16)
LOG_2 = tl.constexpr(0.6931471805599453)
HALF_LOG_2_PI = tl.constexpr(0.9189385332046727)


@triton.jit
def tanh_of(x):
    """tanh, without overflow."""
    small = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - small) / (1.0 + small)
    return tl.where(x < 0.0, -size, size)


@triton.jit
def sample_squashed(
    outputs, noise, actions, log_probs, rows, SIZE: tl.constexpr, P_SIZE: tl.constexpr, ROWS: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr,
):  # fmt: skip
    """Actions and log-probabilities from a net's means and logarithms of standard deviations. Grid: blocks of rows."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, P_SIZE)
    inside = (row < rows)[:, None] & (column < SIZE)[None, :]
    place = row[:, None] * SIZE + column[None, :]
    at = row[:, None] * (2 * SIZE) + column[None, :]
    mean = tl.load(outputs + at, mask=inside, other=0.0)
    log_std = tl.minimum(tl.maximum(tl.load(outputs + at + SIZE, mask=inside, other=0.0), LOW), HIGH)
    drawn = tl.load(noise + place, mask=inside, other=0.0)
    raw = mean + tl.exp(log_std) * drawn
    # log(1 + exp(-2 raw)), without overflow
    softplus = tl.maximum(-2.0 * raw, 0.0) + tl.log(1.0 + tl.exp(-2.0 * tl.abs(raw)))
    terms = -0.5 * drawn * drawn - log_std - HALF_LOG_2_PI - 2.0 * (LOG_2 - raw - softplus)
    tl.store(actions + place, tanh_of(raw), mask=inside)
    tl.store(log_probs + row, tl.sum(tl.where(inside, terms, 0.0), 1), mask=row < rows)


@triton.jit
def squashed_grads(
    outputs, noise, actions, action_grads, log_prob_grads, grads, rows, SIZE: tl.constexpr, P_SIZE: tl.constexpr,
    ROWS: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr,
):  # fmt: skip
    """The gradient at the net's outputs. Grid: blocks of rows."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, P_SIZE)
    inside = (row < rows)[:, None] & (column < SIZE)[None, :]
    place = row[:, None] * SIZE + column[None, :]
    at = row[:, None] * (2 * SIZE) + column[None, :]
    given = tl.load(outputs + at + SIZE, mask=inside, other=0.0)
    log_std = tl.minimum(tl.maximum(given, LOW), HIGH)
    spread = tl.exp(log_std) * tl.load(noise + place, mask=inside, other=0.0)
    action = tl.load(actions + place, mask=inside, other=0.0)
    of_log_prob = tl.load(log_prob_grads + row, mask=row < rows, other=0.0)[:, None]
    of_raw = tl.load(action_grads + place, mask=inside, other=0.0) * (1.0 - action * action)
    of_raw += of_log_prob * 2.0 * action
    of_log_std = tl.where((given >= LOW) & (given <= HIGH), of_raw * spread - of_log_prob, 0.0)
    tl.store(grads + at, of_raw, mask=inside)
    tl.store(grads + at + SIZE, of_log_std, mask=inside)


class SquashedSample(torch.autograd.Function):
    """Actions [batch, size] and their log-probabilities [batch], from a net's outputs [batch, 2 size] and noise."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, noise: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
        outputs, noise = outputs.contiguous(), noise.contiguous()
        actions, log_probs = torch.empty_like(noise), noise.new_empty(len(noise))
        ctx.sizes = {"SIZE": noise.shape[1], "P_SIZE": power_of_two(noise.shape[1]), "ROWS": ROWS}
        ctx.sizes |= {"LOW": low, "HIGH": high}
        sample_squashed[tiles(len(noise), ROWS),](outputs, noise, actions, log_probs, len(noise), **ctx.sizes)
        ctx.save_for_backward(outputs, noise, actions)
        return actions, log_probs

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, None, None, None]:
        outputs, noise, actions = ctx.saved_tensors
        grads = torch.empty_like(outputs)
        of_actions, of_log_probs = (x.contiguous() for x in given)
        squashed_grads[tiles(len(noise), ROWS),](
            outputs, noise, actions, of_actions, of_log_probs, grads, len(noise), **ctx.sizes
        )
        return grads, None, None, None
