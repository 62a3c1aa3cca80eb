"""Sizes of tiles, warps and programs for the kernels, by measurements on an H200. Nothing is tuned at run time, so that
the same run gives the same numbers."""

from __future__ import annotations

from typing import NamedTuple

import torch

from rookery.learners.kernels.gpu.kernel_shapes import NetShape
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
