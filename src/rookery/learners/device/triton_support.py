"""Whether Triton is there. Modules with Triton kernels are imported only where it is."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

import torch


@cache
def find_triton() -> bool:
    """Whether Triton can be imported. Its kernels then run on GPUs, or anywhere if `interpreting`."""
    return find_spec("triton") is not None


def interpreting() -> bool:
    """Whether kernels are run by Triton's interpreter, on a CPU: slow, for tests. The variable must be set before
    triton is imported."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def has_kernels(device: torch.device) -> bool:
    """Whether kernels run on this device."""
    return find_triton() and (device.type == "cuda" or interpreting())


def block_size(on_device: int, interpreted: int) -> int:
    """The size of a tile. The interpreter takes as long for a small one as for a large one."""
    return interpreted if interpreting() else on_device


def padded(size: int) -> int:
    """The smallest size of a tile in a matrix product that holds `size` rows or columns.

    >>> padded(4), padded(16), padded(65)
    (16, 16, 128)
    """
    return max(16, power_of_two(size))


def power_of_two(size: int) -> int:
    """The smallest power of two that is at least `size`.

    >>> power_of_two(1), power_of_two(5)
    (1, 8)
    """
    return 1 << (size - 1).bit_length()


def tiles(size: int, tile: int) -> int:
    """How many tiles cover `size`.

    >>> tiles(65, 64)
    2
    """
    return -(-size // tile)
