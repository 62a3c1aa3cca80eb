"""Bytes of images to blocks of pixels in another type, in one pass over memory: see `image_path`."""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rookery.learners.kernels.gpu.triton_support import block_size, tiles


@triton.jit
def blocks_of_pixels(
    pixels, blocks, IMAGE: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr, PLANES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid: images, parts of an image."""
    image = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    line_size: tl.constexpr = STRIDE * PLANES  # bytes of one line of a block
    row_size: tl.constexpr = COLUMNS * STRIDE * line_size
    inside = place < ROWS * row_size
    row, rest = place // row_size, place % row_size
    column, line, byte = rest // (STRIDE * line_size), rest // line_size % STRIDE, rest % line_size
    source = (row * STRIDE + line) * (WIDTH * PLANES) + column * line_size + byte
    values = tl.load(pixels + image * IMAGE + source, mask=inside, other=0)
    values = values.to(tl.float32).to(blocks.dtype.element_ty)
    tl.store(blocks + image * (ROWS * row_size) + place, values, mask=inside)


def pixel_blocks(pixels: Tensor, rows: int, columns: int, stride: int, dtype: torch.dtype) -> Tensor:
    """[batch, rows, columns, stride * stride * planes] of contiguous bytes [batch, height, width, planes]."""
    batch, height, width, planes = pixels.shape
    blocks = torch.empty(batch, rows, columns, stride * stride * planes, dtype=dtype, device=pixels.device)
    block = block_size(1024, 256)
    blocks_of_pixels[(batch, tiles(blocks[0].numel(), block))](
        pixels, blocks, IMAGE=height * width * planes, WIDTH=width, ROWS=rows, COLUMNS=columns, STRIDE=stride,
        PLANES=planes, BLOCK=block, num_warps=4,
    )  # fmt: skip
    return blocks
