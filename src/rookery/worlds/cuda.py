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
from rookery.worlds.arena import Arena
from rookery.worlds.kernel import KernelWorld
from rookery.worlds.loop import BAD_ACTION, COLUMNS, FAULT, Columns, build, build_action_check
from rookery.worlds.plain import PlainRows
from rookery.worlds.translate import Function, translate
from rookery.worlds.trouble import explained, rehearse

BLOCK = 128
INLINED = ("rookery.worlds.cuda", "rookery.worlds.loop", "rookery.worlds.kernel")
FLOAT32 = ("rewards", "last_returns")  # what learners on a GPU want; the CPU keeps doubles


def build_bodies(world: KernelWorld) -> tuple[Function, Function]:
    """What one thread does to env i: step it, and begin it anew if that is wanted."""
    (advance, begin), fits = build(world), build_action_check(world)

    def step_body(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, trouble: Any) -> None:
        if not fits(columns, i):
            columns.faults[i] = BAD_ACTION
            trouble[0] = 1
        elif advance(columns, tables, i, 0, per_env, mode, strict) == FAULT:
            trouble[0] = 1

    def begin_body(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, trouble: Any) -> None:
        if columns.wanted[i]:
            begin(columns, tables, i, 0, per_env)

    return step_body, begin_body


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
    """Runs a body once for every env, on the arena's device."""

    def __init__(self, arena: DeviceArena) -> None:
        self.arena, self.trouble = arena, torch.zeros(1, dtype=torch.int32, device=arena.device)
        self._bodies = build_bodies(arena.world)
        if arena.device.type == "cuda":
            self._kernels = _compiled(arena.world, self._bodies)
        self.refresh()

    def refresh(self) -> None:
        """Take note of tensors that were replaced."""
        wrap = self._on_gpu if self.arena.device.type == "cuda" else self._on_cpu
        self._wrap = wrap
        self._columns: Any = Columns(*(wrap(self.arena.tensors[name], self.arena.dtypes[name]) for name in COLUMNS))
        self._tables = self.arena.tables_type(*(wrap(table, None) for table in self.arena.tables.values()))
        self._flag = wrap(self.trouble, None)

    def step(self, actions: torch.Tensor, mode: int, strict: bool) -> None:
        """Step all envs with these actions, on the caller's stream, without waiting."""
        flat = actions.reshape(self.arena.num_envs, -1)
        columns = self._columns._replace(actions=self._wrap(actions, None), flat_actions=self._wrap(flat, None))
        self._launch(0, columns, mode, int(strict))

    def begin(self, wanted: torch.Tensor) -> None:
        """Start a new episode in the envs that are wanted."""
        self.arena.tensors["wanted"].copy_(wanted)
        self._launch(1, self._columns, 0, 0)

    def _launch(self, which: int, columns: Any, mode: int, strict: int) -> None:
        n = self.arena.num_envs
        rest = self.arena.per_env, mode, strict, self._flag
        if self.arena.device.type == "cuda":
            from numba import cuda

            stream = cuda.external_stream(torch.cuda.current_stream(self.arena.device).cuda_stream)
            self._kernels[which][(n + BLOCK - 1) // BLOCK, BLOCK, stream](columns, self._tables, *rest)
        else:
            for i in range(n):
                self._bodies[which](columns, self._tables, i, *rest)

    @staticmethod
    def _on_gpu(tensor: torch.Tensor, dtype: np.dtype | None) -> Any:
        from numba import cuda

        if dtype is not None and dtype.names:
            return cuda.as_cuda_array(tensor.reshape(-1)).view(dtype)
        return cuda.as_cuda_array(tensor)

    @staticmethod
    def _on_cpu(tensor: torch.Tensor, dtype: np.dtype | None) -> Any:
        array = tensor.numpy()
        return PlainRows(array.view(dtype).reshape(array.shape[:-1]) if dtype is not None and dtype.names else array)


def _compiled(world: KernelWorld, bodies: tuple[Function, Function]) -> list[Any]:
    from numba import cuda

    rehearse(world)
    kernels = []
    for body in bodies:
        with explained(world):
            kernels.append(cuda.jit(_kernel(world, translate(body, _jit))))
    return kernels


def _jit(function: Any) -> Any:
    from numba import cuda

    return cuda.jit(device=True, forceinline=function.__module__ in INLINED)(function)


def _kernel(world: KernelWorld, device: Any) -> Any:
    """What is launched. Scratch memory is the thread's own: there neighbouring threads' fields lie side by side, where
    in records of 4 KB each they would lie apart (hockey: 15x)."""
    from numba import cuda, from_dtype

    columns = ", ".join("scratch" if name == "scratch" else f"columns.{name}" for name in COLUMNS)
    scope = {"cuda": cuda, "device": device, "Columns": Columns, "kind": from_dtype(world.scratch_dtype)}
    exec(  # noqa: S102 - made of our own names
        "def kernel(columns, tables, per_env, mode, strict, trouble):\n"
        "    i = cuda.grid(1)\n"
        "    if i < columns.states.shape[0]:\n"
        "        scratch = cuda.local.array(1, kind, alignment=16)\n"
        f"        device(Columns({columns}), tables, i, per_env, mode, strict, trouble)\n",
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
