"""Kernel worlds on a GPU: the same loop, one thread per env. Import it late: it needs torch.

With device="cpu" the same bodies run as plain Python over the same tensors, one env after another. So this path can be
tested on a machine without a GPU.
"""

from __future__ import annotations

import warnings
import weakref
import zlib
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from rookery.errors import MissingExtra, OptionError
from rookery.kernel.cuda_bodies import (
    ADDRESSED,
    FLAT,
    FLOAT32,
    HARD_BLOCK,
    NOTE_ARRAYS,
    WORD_BYTES,
    LaunchNotes,
    build_bodies,
    reserve_serially,
)
from rookery.kernel.cuda_code import array_words, kernels
from rookery.kernel.env_arrays import NO_TABLES, EnvArrays, read_only, tables_type
from rookery.kernel.env_loop import COLUMNS, NEXT_STEP, SAME_STEP, Columns
from rookery.kernel.failed_checks import is_checked
from rookery.kernel.plain_values import PlainRows
from rookery.kernel.world import KernelWorld

BLOCK, SMALL_BLOCK = 128, 32
FEW_ENVS = 16_384  # so many and fewer are spread over the whole GPU in small blocks


class DeviceArrays:
    """The arrays of `num_envs` envs as torch tensors on one device.

    On a GPU, states are stored word by word, each word of all envs together, and memories byte by byte, so that
    neighbouring threads read neighbouring words and bytes. On the CPU, and in what `host` returns, they are records.
    """

    def __init__(self, world: KernelWorld, num_envs: int, device: torch.device) -> None:
        self.num_envs, self.device = num_envs, device
        host = EnvArrays(world, num_envs)
        self.dtypes = {name: host.arrays[name].dtype for name in COLUMNS}
        self.tensors: dict[str, torch.Tensor] = {}
        for name in COLUMNS:
            if self._by_byte(name):
                self.tensors[name] = torch.zeros((world.memory, num_envs), dtype=torch.uint8, device=device)
                continue
            array = host.arrays[name].astype(np.float32) if name in FLOAT32 else host.arrays[name]
            self.tensors[name] = torch.from_numpy(self._encoded(name, array)).to(device)
        self.use_tables_of(world)
        for flat, name in FLAT.items():
            self.tensors[flat] = self.tensors[name].reshape(len(self.tensors[name]), -1)

    def use_tables_of(self, world: KernelWorld) -> None:
        """Take the tables of a world, which is this one, maybe with other arrays."""
        self.world = world
        tables = {name: read_only(table) for name, table in world.tables.items()} or NO_TABLES
        self._tables = {name: device_table(table, self.device) for name, table in tables.items()}
        self.tables_type = tables_type(tuple(self.tables))

    @property
    def tables(self) -> dict[str, torch.Tensor]:
        """The tables, and the arrays of the world's simulation, if there is one."""
        simulated = self.world.simulation.arrays if self.world.simulation is not None else {}
        return {**{name: table.tensor for name, table in self._tables.items()}, **simulated}

    @property
    def per_env(self) -> int:
        return int(len(self.tensors["params"]) == self.num_envs > 1)

    def host(self, name: str) -> np.ndarray:
        """A copy of one column as a NumPy array."""
        array, dtype = self.tensors[name].cpu().numpy(), self.dtypes[name]
        if self._by_byte(name):
            return np.ascontiguousarray(array.T)
        if self._by_word(name):
            return np.ascontiguousarray(array.T).view(dtype).reshape(-1)
        return array.view(dtype).reshape(array.shape[:-1]).copy() if dtype.names else array.copy()

    def put(self, name: str, array: np.ndarray) -> None:
        """Replace the contents of one column."""
        self.tensors[name].copy_(torch.from_numpy(self._encoded(name, np.array(array))))

    def saved(self, name: str) -> np.ndarray:
        """A copy of one column for a checkpoint; records become bytes, with zeros between their fields, where anything
        may be."""
        array, names = self.host(name), self.dtypes[name].names
        if not names:
            return array
        clean = np.zeros(array.shape, array.dtype)
        for field in names:
            clean[field] = array[field]
        return clean.view(np.uint8).reshape(*array.shape, -1)

    def load(self, name: str, array: np.ndarray) -> None:
        """Replace the contents of one column by what `saved` returned."""
        dtype = self.dtypes[name]
        self.put(name, array.copy().view(dtype).reshape(array.shape[:-1]) if dtype.names else array)

    def _by_word(self, name: str) -> bool:
        return name == "states" and self.device.type == "cuda"

    def _by_byte(self, name: str) -> bool:
        return name == "memory" and self.device.type == "cuda"

    def _encoded(self, name: str, array: np.ndarray) -> np.ndarray:
        """A column as it is stored on the device: records as words or as bytes."""
        if self._by_byte(name):
            return np.ascontiguousarray(array.T)
        if self._by_word(name):
            return np.ascontiguousarray(array.view(np.int64).reshape(len(array), -1).T)
        if array.dtype.names:
            return np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)
        return array

    def spread_params(self) -> None:
        """Give every env its own copy of the parameters."""
        if len(self.tensors["params"]) != self.num_envs:
            for name in ("params", "next_params"):
                self.tensors[name] = self.tensors[name].repeat(self.num_envs, 1)

    def state_field(self, field: str) -> torch.Tensor:
        """A copy of one field of all states, which is an integer of 4 bytes."""
        if not self._by_word("states"):
            return self.field("states", field)
        offset = self.dtypes["states"].fields[field][1]  # type: ignore[index]
        return (self.tensors["states"][offset // WORD_BYTES] >> (8 * (offset % WORD_BYTES))) & 0xFFFFFFFF

    def field(self, name: str, field: str) -> torch.Tensor:
        """One field of a column of records, as a tensor that shares its memory."""
        kind, offset = self.dtypes[name].fields[field][:2]  # type: ignore[index]
        base = kind.base
        part = self.tensors[name][..., offset : offset + kind.itemsize]
        return part.view(torch.from_numpy(np.zeros(0, base)).dtype).reshape(*part.shape[:-1], *kind.shape)


class KernelLauncher:
    """Runs the bodies once per env, on the device of the arrays."""

    def __init__(self, env_arrays: DeviceArrays, bounds: bool | None = None) -> None:
        """`bounds`: whether a GPU's code is checked; None: if the world is a user's."""
        self.env_arrays, device = env_arrays, env_arrays.device
        self._on_gpu = device.type == "cuda"
        self._easy = env_arrays.world.easy is not None
        self.any_fault = torch.zeros(1, dtype=torch.int32, device=device)
        kinds = env_arrays.world.hard_kinds
        self._count = torch.zeros(kinds, dtype=torch.int32, device=device)
        self._hard = torch.zeros((kinds, env_arrays.num_envs), dtype=torch.int32, device=device)
        world = env_arrays.world
        self._run = kernels(world, is_checked(world, bounds)) if self._on_gpu else build_bodies(world, reserve_serially)
        self.refresh()

    @property
    def notes(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What the kernels note beside the envs' columns."""
        return self.any_fault, self._count, self._hard

    def refresh(self) -> None:
        """Read the addresses again, after a tensor was replaced."""
        tensors, notes = self.env_arrays.tensors, self.notes
        if self._on_gpu:
            self._addresses = {name: tensors[name].data_ptr() for name in ADDRESSED if name in tensors}
            self._addresses |= {name: tensor.data_ptr() for name, tensor in zip(NOTE_ARRAYS, notes, strict=True)}
            self._tables = self.env_arrays.tables_type(*self.env_arrays.tables.values())
            self._table_words = [word for table in self._tables for word in array_words(table)]
        else:
            self._columns: Any = Columns(*(_plain(tensors[name], self.env_arrays.dtypes[name]) for name in COLUMNS))
            self._tables = self.env_arrays.tables_type(*map(_plain, self.env_arrays.tables.values()))
            self._notes = LaunchNotes(_plain(self.any_fault), _plain(self._count), _plain(self._hard), 0)

    def step(self, actions: torch.Tensor, mode: int, strict: bool) -> None:
        """Step all envs with these actions, on the caller's stream, without waiting."""
        simulation = self.env_arrays.world.simulation
        if simulation is not None:
            self._launch(self._run.control, actions, mode, strict)
            simulation.advance()
        if self._easy:
            self._count.zero_()
            self._launch(self._run.step_if_easy, actions, mode, strict)
            self._launch(self._run.step_hard, actions, mode, strict, hard=True)
        else:
            self._launch(self._run.step, actions, mode, strict)
        if simulation is not None:
            simulation.settle()
            self._launch(self._run.settle_begun, actions, mode, strict)
        self._copy_windows(mode)

    def reset(self, reset_mask: torch.Tensor, strict: bool) -> None:
        """Start a new episode in the envs of the mask."""
        actions, simulation = self.env_arrays.tensors["actions"], self.env_arrays.world.simulation
        self.env_arrays.tensors["reset_mask"].copy_(reset_mask)
        self._launch(self._run.reset, actions, 0, strict)
        if simulation is not None:
            simulation.settle()
            self._launch(self._run.settle_reset, actions, 0, strict)
        self._copy_windows(NEXT_STEP)

    def _copy_windows(self, mode: int) -> None:
        """Copy the part of each observation that is a stretch of a table, if the world has one."""
        window = self.env_arrays.world.table_window
        if window is None:
            return
        tensors, table = self.env_arrays.tensors, self.env_arrays.tables[window.table]
        if self._on_gpu:
            from rookery.kernel.cuda_code import copy_windows

            copy_windows(window, tensors, table, mode == SAME_STEP)
            return
        columns = torch.arange(window.size, device=table.device)
        part = slice(window.at, window.at + window.size)
        tensors["flat"][:, part] = table[tensors["window_starts"][:, None] + columns]
        if mode == SAME_STEP:
            ended = tensors["terminated"] | tensors["truncated"]
            tensors["flat_finals"][ended, part] = table[tensors["final_starts"][ended, None] + columns]

    def _launch(self, body: Any, actions: torch.Tensor, mode: int, strict: bool, hard: bool = False) -> None:
        n, rest = self.env_arrays.num_envs, (self.env_arrays.per_env, mode, int(strict))
        if self._on_gpu:
            block = HARD_BLOCK if hard else SMALL_BLOCK if n <= FEW_ENVS else BLOCK
            blocks = (n + block - 1) // block + (len(self._count) - 1 if hard else 0)  # each kind starts a new block
            addresses = (*{**self._addresses, "actions": actions.data_ptr()}.values(),)
            words = (*addresses, *self._table_words, n, *rest)
            with torch.cuda.device(self.env_arrays.device):
                body.launch(blocks, (block, 1), words, (addresses, self._tables, n, *rest))
        else:
            flat = actions.reshape(n, -1)
            columns = self._columns._replace(actions=_plain(actions), flat_actions=_plain(flat))
            for i in self._hard_envs() if hard else range(n):
                body(columns, self._tables, i, *rest, self._notes)

    def _hard_envs(self) -> list[int]:
        return [i for envs, count in zip(self._hard, self._count, strict=True) for i in envs[:count].tolist()]


def _plain(tensor: torch.Tensor, dtype: np.dtype | None = None) -> PlainRows:
    """A CPU tensor as an array of Python numbers."""
    array = tensor.numpy()
    return PlainRows(array.view(dtype).reshape(array.shape[:-1]) if dtype is not None and dtype.names else array)


def find_device(name: str | None) -> torch.device:
    """The device to run on, or an error that names what is missing. ("cpu" runs the GPU's code as plain Python.)"""
    device = torch.device(name or "cuda")
    if device.type == "cpu":
        return device
    if not torch.cuda.is_available():
        build_of = torch.version.cuda
        why = "no NVIDIA driver or GPU was found" if build_of else "this torch was built without CUDA"
        raise OptionError(f"backend='cuda' needs a GPU, and {why}; backend='kernel' runs the same world on the CPU")
    if find_spec("numba_cuda") is None:  # not imported: code that is on disk already needs no compiler
        raise MissingExtra("backend='cuda' needs numba-cuda, which is not installed: pip install 'rookery[cuda]'")
    return device


class DeviceTable:
    """A table on a device: engines of one process that use the same array share it. It keeps its array, so that no
    other array can have the same address in the meantime."""

    def __init__(self, array: np.ndarray, device: torch.device) -> None:
        self.array, self.tensor = array, _uploaded(array, device)


_tables: weakref.WeakValueDictionary[Any, DeviceTable] = weakref.WeakValueDictionary()


def device_table(array: np.ndarray, device: torch.device) -> DeviceTable:
    """The array on the device, which is uploaded unless a table of the same array is there already."""
    key = array.ctypes.data, array.shape, array.dtype.str, str(device), _contents(array)
    found = _tables.get(key)
    if found is None:
        found = _tables[key] = DeviceTable(array, device)
    return found


def _contents(array: np.ndarray) -> int:
    """A checksum of an array that could be written to through another view: it may have changed since its upload."""
    owner: Any = array
    while isinstance(getattr(owner, "base", None), np.ndarray):
        owner = owner.base
    return zlib.crc32(array.reshape(-1).view(np.uint8)) if owner.flags.writeable else 0  # type: ignore[arg-type]


def _uploaded(array: np.ndarray, device: torch.device) -> torch.Tensor:
    if device.type == "cpu":
        return torch.from_numpy(array.copy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the array is read-only, and only read here
        return torch.from_numpy(array).to(device)
