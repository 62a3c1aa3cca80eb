"""Kernel worlds on a GPU: the same loop, one env a thread. Import it late: it needs numba-cuda and torch.

Without a GPU the same body runs as plain Python over the same tensors, one "thread" after another, so that a machine
that has none still guards this path.
"""

from __future__ import annotations

from typing import Any

import numpy as np

if not hasattr(np, "row_stack"):  # gone in NumPy 2.5; numba-cuda 0.30 still looks for it
    np.row_stack = np.vstack  # type: ignore[attr-defined]

import torch

from rookery.errors import MissingExtra, OptionError
from rookery.kernel.cuda_bodies import (
    FLAT,
    FLOAT32,
    HARD_BLOCK,
    NOTES,
    PLACES,
    Bodies,
    Notes,
    build_bodies,
    reserve_in_turn,
)
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import COLUMNS, Columns
from rookery.kernel.plain import PlainRows
from rookery.kernel.world import KernelWorld

BLOCK = 128


class DeviceArrays:
    """The arrays of `num_envs` envs as torch tensors on one device.

    On a GPU states lie word by word, each word of all envs together: neighbouring threads then read neighbouring words,
    where whole records lie apart. Elsewhere, and for whoever asks, they are records.
    """

    def __init__(self, world: KernelWorld, num_envs: int, device: torch.device) -> None:
        self.world, self.num_envs, self.device = world, num_envs, device
        host = EnvArrays(world, num_envs)
        self.dtypes = {name: host.arrays[name].dtype for name in COLUMNS}
        self.tensors: dict[str, torch.Tensor] = {}
        for name in COLUMNS:
            array = host.arrays[name].astype(np.float32) if name in FLOAT32 else host.arrays[name]
            self.tensors[name] = torch.from_numpy(self._encoded(name, array)).to(device)
        self.tables = {name: torch.from_numpy(np.array(table)).to(device) for name, table in host.tables.items()}
        self.tables_type = host.tables_type
        for flat, name in FLAT.items():
            self.tensors[flat] = self.tensors[name].reshape(len(self.tensors[name]), -1)

    @property
    def per_env(self) -> int:
        return int(len(self.tensors["params"]) == self.num_envs > 1)

    def host(self, name: str) -> np.ndarray:
        """A copy of one column in NumPy's terms."""
        array, dtype = self.tensors[name].cpu().numpy(), self.dtypes[name]
        if self._by_word(name):
            return np.ascontiguousarray(array.T).view(dtype).reshape(-1)
        return array.view(dtype).reshape(array.shape[:-1]).copy() if dtype.names else array.copy()

    def put(self, name: str, array: np.ndarray) -> None:
        """Replace the contents of one column."""
        self.tensors[name].copy_(torch.from_numpy(self._encoded(name, np.array(array))))

    def saved(self, name: str) -> np.ndarray:
        """A copy of one column, of records as bytes."""
        array = self.host(name)
        return array.view(np.uint8).reshape(*array.shape, -1) if self.dtypes[name].names else array

    def load(self, name: str, array: np.ndarray) -> None:
        """Replace the contents of one column by what was `saved`."""
        dtype = self.dtypes[name]
        self.put(name, array.copy().view(dtype).reshape(array.shape[:-1]) if dtype.names else array)

    def _by_word(self, name: str) -> bool:
        return name == "states" and self.device.type == "cuda"

    def _encoded(self, name: str, array: np.ndarray) -> np.ndarray:
        """A column as it lies on the device: records as words or as bytes."""
        if self._by_word(name):
            return np.ascontiguousarray(array.view(np.int64).reshape(len(array), -1).T)
        if array.dtype.names:
            return np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)
        return array

    def spread_params(self) -> None:
        """Give every env parameters of its own, to begin with those it has."""
        if len(self.tensors["params"]) != self.num_envs:
            self.tensors["params"] = self.tensors["params"].repeat(self.num_envs, 1)

    def field(self, name: str, field: str) -> torch.Tensor:
        """One field of a column of records, as a tensor over the same memory."""
        kind, offset = self.dtypes[name].fields[field][:2]  # type: ignore[index]
        base = kind.base
        part = self.tensors[name][..., offset : offset + kind.itemsize]
        return part.view(torch.from_numpy(np.zeros(0, base)).dtype).reshape(*part.shape[:-1], *kind.shape)


class KernelLauncher:
    """Runs bodies once for every env, on the arena's device."""

    def __init__(self, arena: DeviceArrays) -> None:
        self.arena, device = arena, arena.device
        self._on_gpu = device.type == "cuda"
        self._easy = arena.world.easy is not None
        self.trouble = torch.zeros(1, dtype=torch.int32, device=device)
        kinds = arena.world.hard_kinds
        self._count = torch.zeros(kinds, dtype=torch.int32, device=device)
        self._hard = torch.zeros((kinds, arena.num_envs), dtype=torch.int32, device=device)
        self._run = _kernels(arena.world) if self._on_gpu else build_bodies(arena.world, reserve_in_turn)
        self.refresh()

    def refresh(self) -> None:
        """Take note of tensors that were replaced."""
        tensors, notes = self.arena.tensors, (self.trouble, self._count, self._hard)
        if self._on_gpu:
            from numba import cuda

            self._places = {name: tensors[name].data_ptr() for name in PLACES if name in tensors}
            self._places |= {name: tensor.data_ptr() for name, tensor in zip(NOTES, notes, strict=True)}
            self._tables = self.arena.tables_type(*map(cuda.as_cuda_array, self.arena.tables.values()))
        else:
            self._columns: Any = Columns(*(_plain(tensors[name], self.arena.dtypes[name]) for name in COLUMNS))
            self._tables = self.arena.tables_type(*map(_plain, self.arena.tables.values()))
            self._notes = Notes(_plain(self.trouble), _plain(self._count), _plain(self._hard), 0)

    def step(self, actions: torch.Tensor, mode: int, strict: bool) -> None:
        """Step all envs with these actions, on the caller's stream, without waiting."""
        if self._easy:
            self._count.zero_()
            self._launch(self._run.step_if_easy, actions, mode, strict)
            self._launch(self._run.step_hard, actions, mode, strict, hard=True)
        else:
            self._launch(self._run.step, actions, mode, strict)

    def begin(self, wanted: torch.Tensor, strict: bool) -> None:
        """Start a new episode in the envs that are wanted."""
        self.arena.tensors["wanted"].copy_(wanted)
        self._launch(self._run.begin, self.arena.tensors["actions"], 0, strict)

    def _launch(self, body: Any, actions: torch.Tensor, mode: int, strict: bool, hard: bool = False) -> None:
        n, rest = self.arena.num_envs, (self.arena.per_env, mode, int(strict))
        if self._on_gpu:
            from numba import cuda

            block = HARD_BLOCK if hard else BLOCK
            blocks = (n + block - 1) // block + (len(self._count) - 1 if hard else 0)  # each kind may end amid a block
            stream = cuda.external_stream(torch.cuda.current_stream(self.arena.device).cuda_stream)
            places = (*{**self._places, "actions": actions.data_ptr()}.values(),)
            body[blocks, block, stream](places, self._tables, n, *rest)
        else:
            flat = actions.reshape(n, -1)
            columns = self._columns._replace(actions=_plain(actions), flat_actions=_plain(flat))
            for i in self._noted() if hard else range(n):
                body(columns, self._tables, i, *rest, self._notes)

    def _noted(self) -> list[int]:
        return [i for envs, count in zip(self._hard, self._count, strict=True) for i in envs[:count].tolist()]


def _kernels(world: KernelWorld) -> Bodies:
    from rookery.kernel.cuda_compiler import kernels

    return kernels(world)


def _plain(tensor: torch.Tensor, dtype: np.dtype | None = None) -> PlainRows:
    """A tensor as plain Python wants to see it."""
    array = tensor.numpy()
    return PlainRows(array.view(dtype).reshape(array.shape[:-1]) if dtype is not None and dtype.names else array)


def find_device(name: str | None) -> torch.device:
    """The device to run on; says what is missing where there is none. ("cpu" runs the GPU's code in plain Python.)"""
    device = torch.device(name or "cuda")
    if device.type == "cpu":
        return device
    if not torch.cuda.is_available():
        build_of = torch.version.cuda
        why = "no NVIDIA driver or GPU was found" if build_of else "this torch was built without CUDA"
        raise OptionError(f"backend='cuda' needs a GPU, and {why}; backend='kernel' runs the same world on the CPU")
    try:
        import numba.cuda  # noqa: F401
    except ImportError as error:
        raise MissingExtra(f"backend='cuda' needs numba-cuda ({error}): pip install 'rookery[cuda]'") from None
    return device
