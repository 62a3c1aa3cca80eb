"""The GPU kernels of a world: read from disk, or compiled by numba-cuda and stored there for the next start.

Numba can store compiled functions of files only, and with pickle; these kernels are made in memory. So the machine code
is stored as code_cache.py stores that of the CPU: keyed by everything that it depends on. If it is on disk, neither
Numba nor numba-cuda is imported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata
from typing import Any

import numpy as np
import torch

from rookery.console import say
from rookery.errors import MissingExtra, OptionError, WorldError
from rookery.kernel import code_cache
from rookery.kernel.cuda_bodies import Bodies, build_bodies, column_forms, key_of, reserve_serially
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.failed_checks import lines_key, numbered
from rookery.kernel.gpu_driver import GpuFunction
from rookery.kernel.runner import load_native
from rookery.kernel.tables import TableWindow
from rookery.kernel.world import KernelWorld
from rookery.once import make_once, once

NOTED_BYTES = 24  # of shared memory for each thread, where a failed check is noted (see cuda_compiler.py)
Compile = Callable[[tuple[Any, ...]], tuple[str, bytes]]  # from arguments to the entry point's name and machine code
_made: dict[str, Bodies] = {}  # key -> kernels: two engines of one world load them once


class CachedKernel:
    """A kernel that is loaded or compiled at its first launch on a device."""

    def __init__(self, label: str, key: str, compile_for: Compile, checked: bool = False) -> None:
        self._label, self._key, self._compile_for = label, key, compile_for
        self._shared_each = NOTED_BYTES if checked else 0
        self._functions: dict[int, GpuFunction] = {}  # by the number of the device

    def launch(self, blocks: int, threads: tuple[int, int], words: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        """Start it on torch's current device and stream. `words` are the arguments as 64-bit words."""
        device = torch.cuda.current_device()
        function = self._functions.get(device)
        if function is None:
            function = make_once(self._functions, device, lambda: self._load(device, arguments))
        stream = torch.cuda.current_stream(device).cuda_stream
        function.launch(blocks, threads, stream, words, self._shared_each * threads[0])

    def _load(self, device: int, arguments: tuple[Any, ...]) -> GpuFunction:
        capability = torch.cuda.get_device_capability(device)
        key = hashlib.sha256(f"{self._key}{capability}".encode()).hexdigest()
        found = code_cache.find(self._label, key, lambda: self._compile_for(arguments))
        try:
            return GpuFunction(*found)
        except WorldError:  # stored by a newer compiler than this driver knows
            found = self._compile_for(arguments)
            code_cache.write(self._label, key, *found)
            return GpuFunction(*found)


def kernels(world: KernelWorld, checked: bool = False) -> Bodies:
    """The bodies of a world as kernels."""
    bodies = build_bodies(world, reserve_serially)  # `reserve` is numba-cuda's in a kernel; its source is in the key
    easy, lines = code_cache.fingerprint(world.easy, ""), lines_key(world) if checked else ""
    sizes = [*sorted(world.table_sizes.items()), world.max_registers]
    key = key_of(bodies, [column_forms(world), table_forms(world), sizes, easy, lines, versions()])

    def make() -> Bodies:
        compile_for = WorldCompilation(world, checked)
        made = {
            name: CachedKernel(f"{world.name}-{name}-gpu", key + name, compile_for(name), checked)
            for name in Bodies._fields
        }
        return Bodies(**made)  # type: ignore[arg-type]

    return make_once(_made, key, make)


class WorldCompilation:
    """Compiles the kernels of a world; the world is translated for numba-cuda once, when the first one is needed."""

    def __init__(self, world: KernelWorld, checked: bool = False) -> None:
        self._world, self._checked = world, checked
        self._dispatchers: Bodies | None = None

    def __call__(self, name: str) -> Compile:
        """The function that compiles one of them."""
        return lambda arguments: self._compiled(name, arguments)

    def _compiled(self, name: str, arguments: tuple[Any, ...]) -> tuple[str, bytes]:
        compiler = load_compiler()
        if self._dispatchers is None:
            say(f"compiling {self._world.name} for the GPU (later starts read the compiled code from disk)")
            self._dispatchers = compiler.dispatchers(self._world, self._checked)
        numbers = numbered(self._world) if self._checked else {}
        return compiler.machine_code(getattr(self._dispatchers, name), arguments, numbers)


def load_compiler() -> Any:
    """The module `rookery.kernel.cuda_compiler`, which needs Numba and numba-cuda."""
    if load_native() is None:
        raise OptionError("backend='cuda' compiles with Numba, and the installed version cannot compile kernel worlds")
    try:
        from rookery.kernel import cuda_compiler
    except ImportError as error:
        raise MissingExtra(f"backend='cuda' needs numba-cuda ({error}): pip install 'rookery[cuda]'") from None
    return cuda_compiler


def table_forms(world: KernelWorld) -> list[tuple[str, str, int]]:
    """The name, type and number of dimensions of each table, and of each array of a simulation."""
    simulated = world.simulation.arrays if world.simulation is not None else {}
    arrays: dict[str, Any] = {**EnvArrays(world, 1).tables, **simulated}
    return [(name, getattr(table.dtype, "str", str(table.dtype)), table.ndim) for name, table in arrays.items()]


def array_words(tensor: torch.Tensor) -> tuple[int, ...]:
    """A tensor as numba-cuda passes arrays to kernels: two unused words, counts, the address, shape and strides."""
    size = tensor.element_size()
    strides = (size * stride for stride in tensor.stride())
    return (0, 0, tensor.numel(), size, tensor.data_ptr(), *tensor.shape, *strides)


@lru_cache
def versions() -> str:
    """The compilers' versions, that of this package among them."""
    return f"{_version('numba')} {_version('numba-cuda')} {code_cache.sources_hash()}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


# --- windows of tables that are copied into observations --------------------------------------------------------------
# 32 threads or more copy the window of one env, so that they read and write neighbouring numbers: 65,536 windows of 90
# numbers take a tenth of the time that they take if each thread copies its own. Bytes that begin at multiples of four
# on both sides, as those of images with four planes do, are copied four at a time.

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
