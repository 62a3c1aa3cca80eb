"""Whether Triton is there. Modules with Triton kernels are imported only where it is."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from threading import Thread

import torch

from rookery.once import once


@cache
def find_triton() -> bool:
    """Whether Triton can be imported. Its kernels then run on GPUs, or anywhere if `interpreting`."""
    return find_spec("triton") is not None


@once
def hash_triton_early() -> Thread:
    """Begin in a thread, once, what every lookup of a stored kernel needs: the hash of Triton's own library, which
    takes 0.4 s. In the meantime, modules are imported, and envs and networks made."""
    thread = Thread(target=_hash_triton, name="rookery triton", daemon=True)
    thread.start()
    return thread


def _hash_triton() -> None:
    with suppress(ImportError):  # another version has it elsewhere: then its first kernel waits
        from triton.runtime.cache import triton_key

        triton_key()


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
