"""Launching the kernels of a minibatch's gradient: for layers whose gradients fit the registers, and for wider ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rookery.learners.kernels.gpu.kernel_choices import (
    gradient_launch,
    wide_launch,
    wide_shares,
    wide_side,
)
from rookery.learners.kernels.gpu.kernel_shapes import NetShape, RecordShape, scratch_shape
from rookery.learners.kernels.gpu.triton_support import tiles


class Minibatch(NamedTuple):
    """What the kernels read, and where they write."""

    records: Tensor
    record: RecordShape
    order: Tensor
    moments: Tensor
    stopped: Tensor
    clip: Tensor
    parts: Tensor
    first: int
    size: int
    epoch: int


class RegisterGradients:
    """One kernel. `rows` is the largest number of samples in a minibatch."""

    def __init__(self, learner: Any, net: NetShape, rows: int) -> None:
        self.learner, self.net = learner, net
        self.launch = gradient_launch(net, rows, learner.device)
        self.programs = self.launch.programs

    def __call__(self, batch: Minibatch, chunks: int) -> None:
        from rookery.learners.kernels.gpu.gradient_kernels import STATISTICS, gradients

        options = self.learner.options
        gradients[(self.programs, 2)](
            batch.records, batch.order, self.learner.adam.flat, batch.parts, batch.moments, batch.stopped, batch.clip,
            batch.first, batch.size, batch.epoch, options.entropy, options.value_weight, options.clip_values or 0.0,
            NET=self.net, RECORD=batch.record, NORMALISE=options.normalise_advantages, CHUNKS=chunks,
            BLOCK=self.launch.block, STATISTICS=STATISTICS, num_warps=self.launch.warps, num_stages=1,
        )  # fmt: skip


class ScratchGradients:
    """Activations by way of memory: one kernel for all samples, then one for each layer."""

    def __init__(self, learner: Any, net: NetShape, rows: int) -> None:
        self.learner, self.net, self.rows = learner, net, rows
        self.launch, self.shares = wide_launch(net, rows, learner.device), wide_shares(rows, learner.device)
        self.programs = max(self.launch.programs, self.shares)
        self.shape = scratch_shape(net)
        dtype = torch.bfloat16 if net.precision == "bf16" else torch.float32
        self._scratch = torch.zeros(2 * self.shape.width * rows, dtype=dtype, device=learner.device)

    def __call__(self, batch: Minibatch, chunks: int) -> None:
        from rookery.learners.kernels.gpu.gradient_kernels import STATISTICS
        from rookery.learners.kernels.gpu.wide_kernels import wide_pass

        options = self.learner.options
        wide_pass[(self.launch.programs, 2)](
            batch.records, batch.order, self.learner.adam.flat, self._scratch, batch.parts, batch.moments,
            batch.stopped, batch.clip, batch.first, batch.size, batch.epoch, self.rows, options.entropy,
            options.value_weight, options.clip_values or 0.0,
            NET=self.net, RECORD=batch.record, SCRATCH=self.shape, NORMALISE=options.normalise_advantages,
            CHUNKS=chunks, BLOCK=self.launch.block, COLUMNS=self.net.columns, STATISTICS=STATISTICS,
            num_warps=self.launch.warps, num_stages=1,
        )  # fmt: skip
        for layer in range(self.net.depth + 1):
            self._multiply(batch, layer)

    def _multiply(self, batch: Minibatch, layer: int) -> None:
        from rookery.learners.kernels.gpu.gradient_kernels import STATISTICS
        from rookery.learners.kernels.gpu.wide_kernels import weight_gradients

        net = self.net
        inputs = (net.inputs, *net.hidden)[layer]
        p_inputs, p_outputs = (net.p_inputs, *net.p_hidden)[layer], (*net.p_hidden, net.p_outputs)[layer]
        side_in, side_out = min(p_inputs, wide_side(net)), min(p_outputs, wide_side(net))
        blocks = tiles(p_inputs, side_in) * tiles(p_outputs, side_out)
        weight_gradients[(blocks, self.shares, 2)](
            batch.records, batch.order, self._scratch, batch.parts, batch.stopped, batch.first, batch.size,
            batch.epoch, self.rows, NET=net, RECORD=batch.record, SCRATCH=self.shape, LAYER=layer, INPUTS=inputs,
            P_INPUTS=p_inputs, P_OUTPUTS=p_outputs, BLOCK=self.launch.block, SIDE_IN=side_in, SIDE_OUT=side_out,
            STATISTICS=STATISTICS, num_warps=8, num_stages=3,
        )  # fmt: skip


def make_gradients(learner: Any, net: NetShape, rows: int) -> RegisterGradients | ScratchGradients:
    """The launcher that fits a policy's layers."""
    return (ScratchGradients if net.is_wide else RegisterGradients)(learner, net, rows)
