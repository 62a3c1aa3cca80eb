"""SAC's samples by two kernels instead of thirty: at its sizes on a GPU a kernel costs more than what it computes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.learners.kernels.gpu.squash_kernels import ROWS, sample_squashed, squashed_grads
from rookery.learners.kernels.gpu.triton_support import power_of_two, tiles


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
