"""A block of shared memory without a name: nothing that could be left behind."""

from __future__ import annotations

import ctypes
import mmap
import os

_MAP_FIXED = 0x10


def new_block(size: int) -> int:
    """A descriptor of so many bytes, committed at once: a page that is missing later would be a SIGBUS."""
    block = os.memfd_create("rookery", os.MFD_CLOEXEC)
    try:
        os.posix_fallocate(block, 0, size)
    except BaseException:
        os.close(block)
        raise
    return block


def map_block(block: int, size: int) -> mmap.mmap:
    """The block as memory. `mmap.mmap(block, size)` would hold a descriptor of its own for as long as anybody refers to
    the memory: a caller who kept an array, or the traceback of an error. So the block takes the place of memory that
    has none."""
    memory = mmap.mmap(-1, size)
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    c_mmap = ctypes.CDLL(None, use_errno=True).mmap
    c_mmap.restype = ctypes.c_void_p
    c_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t]
    access, how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED
    if c_mmap(place, size, access, how, block, 0) != place:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return memory
