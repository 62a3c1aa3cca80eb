"""Sizes of tiles, warps and programs for the kernels, by measurements on an H200, and the launches of a minibatch's
gradient. Nothing is tuned at run time, so that the same run gives the same numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rookery.learners.kernels.gpu.kernel_shapes import NetShape, RecordShape, scratch_shape
from rookery.learners.kernels.gpu.triton_support import interpreting, tiles


class Launch(NamedTuple):
    """How a kernel is launched."""

    block: int  # rows of a tile
    warps: int
    programs: int = 0  # that walk over tiles; 0 if there is one for each tile
    stages: int = 3  # tiles on the chip at once: while one is computed, the next ones are read


def programs_of(device: torch.device) -> int:
    """How many programs run at once: one for each multiprocessor."""
    if device.type != "cuda":
        return 2
    return torch.cuda.get_device_properties(device).multi_processor_count


def gradient_launch(net: NetShape, rows: int, device: torch.device) -> Launch:
    """For `gradients` over minibatches of so many rows. Every program gets the same number of tiles, or one less."""
    block, warps = gradient_tile(net)
    count = tiles(rows, block)
    return Launch(block, warps, tiles(count, tiles(count, programs_of(device))))


def gradient_tile(net: NetShape) -> tuple[int, int]:
    """Rows of a tile and warps: gradients of the widest layer must fit into the registers."""
    if interpreting():
        return 16, 1
    widest = max(net.p_hidden)
    if net.precision != "bf16":
        return (32, 4) if widest <= 64 else (16, 8)
    return (64, 4) if widest <= 64 else (32, 8)


def forward_launch(net: NetShape, rows: int) -> Launch:
    """For a pass of few rows through one network: small tiles spread over the whole GPU."""
    if interpreting():
        return Launch(16, 1)
    return Launch(16 if rows <= 4096 else 32, 2)


def evaluate_launches(net: NetShape, rows: int, device: torch.device) -> list[Launch]:
    """For values of a whole rollout, the fastest first: later ones need less memory on the chip."""
    block, warps = (16, 1) if interpreting() else (128, 4) if max(net.p_hidden) <= 64 else (64, 8)
    sizes = [(block, 3), (block, 2), *((size, 1) for size in (128, 64, 32, 16) if size <= block)]
    return [Launch(size, warps, min(4 * programs_of(device), tiles(rows, size)), stages) for size, stages in sizes]


def wide_launch(net: NetShape, rows: int, device: torch.device) -> Launch:
    """For `wide_pass`."""
    block, warps = (16, 1) if interpreting() else (32, 4) if net.precision == "bf16" else (16, 8)
    return Launch(block, warps, min(2 * programs_of(device), tiles(rows, block)))


def wide_shares(rows: int, device: torch.device) -> int:
    """Into how many shares `weight_gradients` splits the samples: a 256 x 256 layer has four blocks and two nets."""
    return max(1, min(tiles(programs_of(device), 4), tiles(rows, 64)))


def wide_side(net: NetShape) -> int:
    """The side of a block of a layer's gradient."""
    return 128 if net.precision == "bf16" else 64


# --- a gradient -------------------------------------------------------------------------------------------------------


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

        options, is_q = self.learner.options, self.net.is_q
        weights = (0.0,) * 3 if is_q else (options.entropy, options.value_weight, options.clip_values or 0.0)
        gradients[(self.programs, 1 if is_q else 2)](
            batch.records, batch.order, self.learner.adam.flat, batch.parts, batch.moments, batch.stopped, batch.clip,
            batch.first, batch.size, batch.epoch, *weights, NET=self.net, RECORD=batch.record,
            NORMALISE=not is_q and options.normalise_advantages, CHUNKS=chunks,
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
