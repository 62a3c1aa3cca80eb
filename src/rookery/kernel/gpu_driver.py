"""Loads and launches compiled GPU code with the CUDA driver, without Numba: importing numba-cuda takes longer than
loading a kernel from disk. Memory, streams and the context are torch's."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from threading import Thread
from typing import Any

from rookery.errors import WorldError

BUFFER, BUFFER_SIZE, END = 1, 2, 0  # CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE and _END of the driver


class GpuFunction:
    """A kernel of a compiled module, loaded into the context of torch's current device. All its arguments are 64-bit
    words."""

    def __init__(self, entry: str, code: bytes) -> None:
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        driver = load_driver()
        _check(driver.cuModuleLoadData(ctypes.byref(module), code), "cuModuleLoadData")
        _check(driver.cuModuleGetFunction(ctypes.byref(self._function), module, entry.encode()), "cuModuleGetFunction")
        self._launch = driver.cuLaunchKernel

    def launch(self, blocks: int, threads: tuple[int, int], stream: int, words: Sequence[int], shared: int = 0) -> None:
        """Start the kernel on a stream, without waiting, with so many bytes of shared memory. The driver copies the
        words before it returns."""
        arguments = (ctypes.c_int64 * len(words))(*words)
        size = ctypes.c_size_t(ctypes.sizeof(arguments))
        extra = (ctypes.c_void_p * 5)(BUFFER, ctypes.addressof(arguments), BUFFER_SIZE, ctypes.addressof(size), END)
        result = self._launch(self._function, blocks, 1, 1, *threads, 1, shared, ctypes.c_void_p(stream), None, extra)
        _check(result, "cuLaunchKernel")


def open_context_early(device: str) -> None:
    """Begin to open the context of a GPU in a thread, while this process imports torch, which takes longer. torch uses
    the same context. Without a driver nothing happens: torch will say what is missing."""
    kind, _, number = device.partition(":")
    if kind == "cuda" and (not number or number.isdigit()):
        Thread(target=_retain_context, args=(int(number or 0),), daemon=True).start()


def _retain_context(number: int) -> None:
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    with suppress(OSError):
        driver = load_driver()
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(handle), number) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)


@lru_cache
def load_driver() -> Any:
    """The driver's library. It is there wherever torch found a GPU."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ctypes.CDLL("nvcuda.dll")  # Windows


def _check(result: int, call: str) -> None:
    if result:
        text = ctypes.c_char_p()
        load_driver().cuGetErrorString(result, ctypes.byref(text))
        raise WorldError(f"{call} of the CUDA driver failed: {(text.value or b'unknown error').decode()} ({result})")
