"""Copies windows of tables into observations on a GPU. Import it late: it needs torch.

32 threads or more copy the window of one env, so that they read and write neighbouring numbers: 65,536 windows of 90
numbers take a tenth of the time that they take if each thread copies its own. Bytes that begin at multiples of four on
both sides, as those of images with four planes do, are copied four at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rookery.kernel.cuda_code import CachedKernel, load_compiler, versions
from rookery.kernel.table_window import TableWindow
from rookery.once import once

LARGE = 4096  # numbers of a window for which more than 32 threads work


def block_of(size: int) -> tuple[int, int]:
    """Threads per env, and envs per block, for windows of so many numbers."""
    return (256, 1) if size >= LARGE else (32, 8)


def copy_windows(
    window: TableWindow, tensors: dict[str, torch.Tensor], table: torch.Tensor, keeps_finals: bool
) -> None:
    """Copy the windows of all envs, on the caller's stream, without waiting."""
    flat = tensors["flat"]
    n, width = flat.shape
    names = ("flat", "flat_finals", "window_starts", "final_starts", "terminated", "truncated")
    addresses = (*(tensors[name].data_ptr() for name in names), table.data_ptr())
    kernel = _kernel(window.at, window.size, width, str(table.dtype).removeprefix("torch."))
    numbers = len(table), n, int(keeps_finals)
    with torch.cuda.device(flat.device):
        lanes, envs = block_of(window.size)
        kernel.launch((n + envs - 1) // envs, (lanes, envs), (*addresses, *numbers), (addresses, *numbers))


@once
def _kernel(*form: Any) -> CachedKernel:
    """The kernel for windows of this form."""

    def compile_for(arguments: tuple[Any, ...]) -> tuple[str, bytes]:
        compiler = load_compiler()
        return compiler.machine_code(_dispatcher(compiler, *form), arguments)

    return CachedKernel("windows-gpu", f"{form} {versions()}", compile_for)


def _dispatcher(compiler: Any, at: int, size: int, width: int, dtype_name: str) -> Any:
    cuda, carray, pointer = compiler.cuda, compiler.carray, compiler.pointer
    dtype, word, byte, four_bytes = np.dtype(dtype_name), np.int64, np.uint8, np.uint32
    lanes, envs = block_of(size)
    packed = dtype.itemsize == 1 and at % 4 == 0 and size % 4 == 0 and width % 4 == 0

    @cuda.jit(device=True)
    def copy_one(to: Any, table: Any, env: int, start: int, length: int, n: int) -> None:
        if packed and start % 4 == 0:
            wide = carray(pointer(to), (n, width // 4), four_bytes)
            whole = carray(pointer(table), (length // 4,), four_bytes)
            for k in range(cuda.threadIdx.x, size // 4, lanes):
                wide[env, at // 4 + k] = whole[start // 4 + k]
        else:
            narrow = carray(pointer(to), (n, width), dtype)
            numbers = carray(pointer(table), (length,), dtype)
            for k in range(cuda.threadIdx.x, size, lanes):
                narrow[env, at + k] = numbers[start + k]

    def copy(addresses: Any, length: int, n: int, keeps_finals: int) -> None:
        env = cuda.blockIdx.x * envs + cuda.threadIdx.y
        if env >= n:
            return
        start = carray(pointer(addresses[2]), (n,), word)[env]
        copy_one(addresses[0], addresses[6], env, start, length, n)
        if keeps_finals == 0:
            return
        terminated = carray(pointer(addresses[4]), (n,), byte)
        truncated = carray(pointer(addresses[5]), (n,), byte)
        if terminated[env] == 0 and truncated[env] == 0:
            return
        final_start = carray(pointer(addresses[3]), (n,), word)[env]
        copy_one(addresses[1], addresses[6], env, final_start, length, n)

    return cuda.jit(copy)
