"""Kernel worlds on a GPU: the same loop, one env a thread. Import it late: it needs numba-cuda and torch.

Without a GPU the same body runs as plain Python over the same tensors, one "thread" after another, so that a machine
that has none still guards this path.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple

import numpy as np

if not hasattr(np, "row_stack"):  # gone in NumPy 2.5; numba-cuda 0.30 still looks for it
    np.row_stack = np.vstack  # type: ignore[attr-defined]

import torch

from rookery.errors import MissingExtra, OptionError
from rookery.worlds.acting import build_action_check
from rookery.worlds.arena import Arena
from rookery.worlds.cache import fingerprint
from rookery.worlds.kernel import KernelWorld, own_codes
from rookery.worlds.loop import BAD_ACTION, COLUMNS, FAULT, HARD, Columns, build
from rookery.worlds.plain import PlainRows
from rookery.worlds.translate import Function, translate
from rookery.worlds.trouble import rehearse

BLOCK = 128
_made: dict[str, Any] = {}  # fingerprint -> kernels: an engine made twice compiles once
HARD_BLOCK = 32  # long steps are few: in small blocks they spread over the whole GPU
Notes: Any = namedtuple("Notes", ("trouble", "count", "hard"))  # type: ignore[misc]
INLINED = tuple(f"rookery.worlds.{name}" for name in ("acting", "cuda", "kernel", "loop"))
FLOAT32 = ("rewards", "last_returns")  # what learners on a GPU want; the CPU keeps doubles


class Bodies(NamedTuple):
    """What one thread does, each as a function of (columns, tables, i, per_env, mode, strict, notes)."""

    step: Function  # steps env i
    step_if_easy: Function  # the same, or notes that the step is a long one
    step_hard: Function  # steps the i-th of those noted
    begin: Function  # begins env i anew, if that is wanted


def build_bodies(world: KernelWorld, reserve: Function) -> Bodies:
    """The bodies of the kernels. `reserve(notes)` hands out places in the list of hard envs, one after another."""
    (advance, advance_if_easy, advance_running, begin), fits = build(world), build_action_check(world)

    def refuse(columns: Any, i: int, notes: Any) -> None:
        columns.faults[i] = BAD_ACTION
        notes.trouble[0] = 1

    def step(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        if not fits(columns, i):
            refuse(columns, i, notes)
        elif advance(columns, tables, i, 0, per_env, mode, strict) == FAULT:
            notes.trouble[0] = 1

    def step_if_easy(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        if not fits(columns, i):
            refuse(columns, i, notes)
            return
        outcome = advance_if_easy(columns, tables, i, 0, per_env, mode, strict)
        if outcome == HARD:
            notes.hard[reserve(notes)] = i
        elif outcome == FAULT:
            notes.trouble[0] = 1

    def step_hard(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        if i < notes.count[0] and advance_running(columns, tables, notes.hard[i], 0, per_env, mode, strict) == FAULT:
            notes.trouble[0] = 1

    def begin_wanted(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        if columns.wanted[i] and begin(columns, tables, i, 0, per_env, strict) == FAULT:
            notes.trouble[0] = 1

    return Bodies(step, step_if_easy, step_hard, begin_wanted)


def reserve_in_turn(notes: Any) -> int:
    """`reserve` where threads run one after another."""
    place = notes.count[0]
    notes.count[0] = place + 1
    return place


class DeviceArena:
    """The arrays of `num_envs` envs as torch tensors on one device."""

    def __init__(self, world: KernelWorld, num_envs: int, device: torch.device) -> None:
        self.world, self.num_envs, self.device = world, num_envs, device
        host = Arena(world, num_envs)
        self.dtypes = {name: host.arrays[name].dtype for name in COLUMNS}
        self.tensors: dict[str, torch.Tensor] = {}
        for name in COLUMNS:
            array = host.arrays[name].astype(np.float32) if name in FLOAT32 else host.arrays[name]
            if array.dtype.names:  # records travel as bytes
                array = array.view(np.uint8).reshape(*array.shape, array.dtype.itemsize)
            self.tensors[name] = torch.from_numpy(array).to(device)
        self.tables = {name: torch.from_numpy(np.array(table)).to(device) for name, table in host.tables.items()}
        self.tables_type = host.tables_type
        for name, flat in (("observations", "flat"), ("finals", "flat_finals"), ("actions", "flat_actions")):
            self.tensors[flat] = self.tensors[name].reshape(len(self.tensors[name]), -1)

    @property
    def per_env(self) -> int:
        return int(len(self.tensors["params"]) == self.num_envs > 1)

    def host(self, name: str) -> np.ndarray:
        """A copy of one column in NumPy's terms."""
        array = self.tensors[name].cpu().numpy()
        return array.view(self.dtypes[name]).reshape(array.shape[:-1]) if self.dtypes[name].names else array.copy()

    def put(self, name: str, array: np.ndarray) -> None:
        """Replace the contents of one column."""
        dtype = self.dtypes[name]
        if dtype.names:
            array = np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, dtype.itemsize)
        self.tensors[name].copy_(torch.from_numpy(np.array(array)))

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


class Launcher:
    """Runs bodies once for every env, on the arena's device."""

    def __init__(self, arena: DeviceArena) -> None:
        self.arena, device = arena, arena.device
        self._on_gpu = device.type == "cuda"
        self._easy = arena.world.easy is not None
        self.trouble = torch.zeros(1, dtype=torch.int32, device=device)
        self._count = torch.zeros(1, dtype=torch.int32, device=device)
        self._hard = torch.zeros(arena.num_envs, dtype=torch.int32, device=device)
        self._run: Bodies = _kernels(arena.world) if self._on_gpu else build_bodies(arena.world, reserve_in_turn)
        self.refresh()

    def refresh(self) -> None:
        """Take note of tensors that were replaced."""
        self._columns: Any = Columns(*(self._wrap(self.arena.tensors[n], self.arena.dtypes[n]) for n in COLUMNS))
        self._tables = self.arena.tables_type(*(self._wrap(table) for table in self.arena.tables.values()))
        self._notes = Notes(*(self._wrap(tensor) for tensor in (self.trouble, self._count, self._hard)))

    def step(self, actions: torch.Tensor, mode: int, strict: bool) -> None:
        """Step all envs with these actions, on the caller's stream, without waiting."""
        flat = actions.reshape(self.arena.num_envs, -1)
        columns = self._columns._replace(actions=self._wrap(actions), flat_actions=self._wrap(flat))
        if self._easy:
            self._count.zero_()
            self._launch(self._run.step_if_easy, columns, mode, int(strict))
            self._launch(self._run.step_hard, columns, mode, int(strict), HARD_BLOCK)
        else:
            self._launch(self._run.step, columns, mode, int(strict))

    def begin(self, wanted: torch.Tensor, strict: bool) -> None:
        """Start a new episode in the envs that are wanted."""
        self.arena.tensors["wanted"].copy_(wanted)
        self._launch(self._run.begin, self._columns, 0, int(strict))

    def _launch(self, body: Any, columns: Any, mode: int, strict: int, block: int = BLOCK) -> None:
        n, rest = self.arena.num_envs, (self.arena.per_env, mode, strict, self._notes)
        if self._on_gpu:
            from numba import cuda

            stream = cuda.external_stream(torch.cuda.current_stream(self.arena.device).cuda_stream)
            body[(n + block - 1) // block, block, stream](columns, self._tables, *rest)
        else:
            for i in range(n):
                body(columns, self._tables, i, *rest)

    def _wrap(self, tensor: torch.Tensor, dtype: np.dtype | None = None) -> Any:
        """A tensor as compiled code, or plain Python, wants to see it."""
        records = dtype is not None and dtype.names
        if self._on_gpu:
            from numba import cuda

            return cuda.as_cuda_array(tensor.reshape(-1)).view(dtype) if records else cuda.as_cuda_array(tensor)
        array = tensor.numpy()
        return PlainRows(array.view(dtype).reshape(array.shape[:-1]) if records else array)


def _kernels(world: KernelWorld) -> Bodies:
    """The bodies as kernels, compiled when first launched; once for a world and its parameters' types."""
    from numba import cuda

    def reserve(notes: Any) -> int:
        return cuda.atomic.add(notes.count, 0, 1)

    bodies = build_bodies(world, reserve)
    key = fingerprint(bodies.step, world.scratch_dtype)
    if key not in _made:
        rehearse(world)
        jit = partial(_jit, inlined=own_codes(world))
        _made[key] = Bodies(*(cuda.jit(_kernel(world, translate(body, jit))) for body in bodies))
    return _made[key]


def _jit(function: Any, inlined: Collection[Any]) -> Any:
    from numba import cuda

    inline = function.__module__ in INLINED or function.__code__ in inlined
    return cuda.jit(device=True, forceinline=inline)(function)


def _kernel(world: KernelWorld, device: Any) -> Any:
    """What is launched. Scratch memory is the thread's own: there neighbouring threads' fields lie side by side, where
    in records of 4 KB each they would lie apart."""
    from numba import cuda, from_dtype

    columns = ", ".join("scratch" if name == "scratch" else f"columns.{name}" for name in COLUMNS)
    scope = {"cuda": cuda, "device": device, "Columns": Columns, "kind": from_dtype(world.scratch_dtype)}
    exec(  # noqa: S102 - made of our own names
        "def kernel(columns, tables, per_env, mode, strict, notes):\n"
        "    i = cuda.grid(1)\n"
        "    if i < columns.states.shape[0]:\n"
        "        scratch = cuda.local.array(1, kind, alignment=16)\n"
        f"        device(Columns({columns}), tables, i, per_env, mode, strict, notes)\n",
        scope,
    )
    return scope["kernel"]


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
