"""Copies between arrays of this process and tensors of a device: queued, so that nobody waits for them.

A GPU reads pinned memory by itself. Small arrays lie side by side in one pinned block, as starting a copy costs more
than the copy. Large observations are copied from where the workers write them: that memory is pinned once.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

ALIGNED = 16  # bytes
Plan = Mapping[str, tuple[tuple[int, ...], torch.dtype]]  # shapes and dtypes by name


BLOCKS = ("cuda", "cpu")  # devices on which parts of a block of bytes can be tensors of any type


class PackedCopies:
    """Arrays in one block of host memory, and tensors of the same shapes in one block of a device."""

    def __new__(cls, plan: Plan, device: torch.device) -> PackedCopies:
        return super().__new__(cls if device.type in BLOCKS else SeparateCopies)

    def __init__(self, plan: Plan, device: torch.device) -> None:
        places, size = _places(plan)
        self._queued = device.type == "cuda"  # on others, a copy that is not waited for may come too late
        self._host = torch.zeros(size, dtype=torch.uint8, pin_memory=self._queued)
        self._device = torch.zeros(size, dtype=torch.uint8, device=device)
        self.arrays = {name: _view(self._host, places[name], *plan[name]).numpy() for name in plan}
        self.tensors = {name: _view(self._device, places[name], *plan[name]) for name in plan}

    def to_device(self) -> None:
        """Queue the copy of all arrays. They must not change before it is done."""
        self._device.copy_(self._host, non_blocking=self._queued)

    def to_host(self) -> None:
        """Queue the copy of all tensors back."""
        self._host.copy_(self._device, non_blocking=self._queued)


class SeparateCopies(PackedCopies):
    """The same with a copy for each array."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        hosts = {name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype) in plan.items()}
        self.arrays = {name: tensor.numpy() for name, tensor in hosts.items()}
        self.tensors = {name: torch.zeros_like(tensor, device=device) for name, tensor in hosts.items()}

    def to_device(self) -> None:
        for name, array in self.arrays.items():
            self.tensors[name].copy_(torch.from_numpy(array))

    def to_host(self) -> None:
        for name, array in self.arrays.items():
            torch.from_numpy(array).copy_(self.tensors[name])


def _places(plan: Plan) -> tuple[dict[str, int], int]:
    """Where each array begins, and how many bytes there are in all."""
    places, size = {}, 0
    for name, (shape, dtype) in plan.items():
        places[name] = size
        size += -(-_bytes(shape, dtype) // ALIGNED) * ALIGNED
    return places, size


def _bytes(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _view(block: Tensor, start: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return block[start : start + _bytes(shape, dtype)].view(dtype).view(shape)


class PinnedBuffer:
    """Memory that a GPU may read by itself, until `release`, or until nobody refers to this object."""

    def __init__(self, buffer: Any) -> None:
        """`buffer` is a block that stays where it is, such as an engine's batch. It need not be possible to pin it:
        copies from it are correct then as well, but the host waits for them."""
        self._bytes = np.frombuffer(buffer, np.uint8)  # keeps the block mapped
        address, runtime = self._bytes.ctypes.data, torch.cuda.cudart()
        register = getattr(runtime, "cudaHostRegister", None)  # not every build of torch has it
        self.is_pinned = register is not None and int(register(address, self._bytes.nbytes, 0)) == 0
        self._release = weakref.finalize(self, _unpin, runtime, address, self._bytes) if self.is_pinned else None

    def release(self) -> None:
        """Let the memory be as any other."""
        if self._release is not None:
            self._release()


def _unpin(runtime: Any, address: int, memory: np.ndarray) -> None:
    """`memory` is kept until here: a block must not be unmapped while it is pinned."""
    runtime.cudaHostUnregister(address)


class CopyStream:
    """Queues copies to a device: large ones beside its other work, small ones within it, as switching streams costs
    more than they do. On a device without streams a copy is done when it is called."""

    def __init__(self, device: torch.device, beside: bool) -> None:
        on_gpu = device.type == "cuda"
        self._device = device
        self._stream = torch.cuda.Stream(device) if on_gpu and beside else None
        self._on_gpu = on_gpu
        self._used, self._copied = (torch.cuda.Event() if self._stream is not None else None for _ in range(2))

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Copies in this block come after the work that has `used` what they overwrite, and before the work that is
        queued after the block."""
        if self._stream is None or self._copied is None or self._used is None:
            yield
            return
        self._stream.wait_event(self._used)
        with torch.cuda.stream(self._stream):
            yield
        self._copied.record(self._stream)
        torch.cuda.current_stream(self._device).wait_event(self._copied)

    def used(self) -> None:
        """The work that reads the copies so far is queued."""
        if self._stream is not None and self._used is not None:
            self._used.record(torch.cuda.current_stream(self._device))

    def settle(self) -> None:
        """Wait until the host's side of all copies may be written again."""
        if self._on_gpu:
            torch.cuda.current_stream(self._device).synchronize()
