"""What a GPU runs: a body of cuda_bodies.py, for one env a thread. Import it late: it needs numba-cuda.

A kernel gets addresses and makes of each the part that is its env's own, so that bodies see columns of a single env.
What a step reads and writes most (the state, observations, rewards) it first copies into memory of the thread's own,
mostly registers, and writes back at the end: the compiler cannot know that two columns never overlap, and would read
everything again after every write.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np
from numba import cuda, types
from numba.core import cgutils
from numba.cuda.extending import intrinsic
from numba.cuda.np.numpy_support import carray

from rookery.kernel import native
from rookery.kernel.cuda_bodies import (
    FLAT,
    FLOAT32,
    HARD_BLOCK,
    PLACES,
    SHARED,
    WORD,
    Bodies,
    Notes,
    build_bodies,
    key_of,
)
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import COLUMNS, Columns
from rookery.kernel.translate import translate
from rookery.kernel.world import KernelWorld, own_codes

INLINED = tuple(f"rookery.kernel.{name}" for name in ("cuda_bodies", "env_loop", "world", "world_calls"))
FEW = 64  # so many numbers, at most, are kept in memory of a thread's own
_made: dict[str, Bodies] = {}  # fingerprint -> kernels: an engine made twice compiles once


def kernels(world: KernelWorld) -> Bodies:
    """The bodies as kernels, compiled when first launched; once for a world and the types of what it works on."""
    bodies = build_bodies(world, _reserve)
    key = key_of(bodies, _forms(world))
    if key not in _made:
        native.entry_point(world)  # for the CPU first: it tells mistakes by their lines, and refuses writes to tables
        jit = partial(_jit, inlined=own_codes(world))
        made = {name: _kernel(world, translate(body, jit), name) for name, body in bodies._asdict().items()}
        _made[key] = Bodies(**{name: cuda.jit(kernel) for name, kernel in made.items()})
    return _made[key]


def _reserve(notes: Any, kind: int) -> int:
    return cuda.atomic.add(notes.count, kind, 1)


@cuda.jit(device=True, forceinline=True)
def _noted(count: Any, hard: Any) -> int:
    """The env whose long step is this thread's to make, or -1: one kind after the other, none sharing a block."""
    block = cuda.blockIdx.x
    for kind in range(len(count)):
        blocks = (count[kind] + HARD_BLOCK - 1) // HARD_BLOCK
        if block < blocks:
            place = block * HARD_BLOCK + cuda.threadIdx.x
            return hard[kind, place] if place < count[kind] else -1
        block -= blocks
    return -1


def _jit(function: Any, inlined: Collection[Any]) -> Any:
    inline = function.__module__ in INLINED or function.__code__ in inlined
    return cuda.jit(device=True, forceinline=inline)(function)


def _forms(world: KernelWorld) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """The shape and type of each column of a single env."""
    arrays = EnvArrays(world, 1).arrays
    return {
        name: (arrays[name].shape, np.dtype(np.float32) if name in FLOAT32 else arrays[name].dtype) for name in COLUMNS
    }


def _kernel(world: KernelWorld, device: Any, name: str) -> Any:
    """What is launched, around the body `device`."""
    forms = _forms(world)
    scope: dict[str, Any] = {
        "cuda": cuda, "carray": carray, "pointer": _pointer, "device": device, "Columns": Columns, "Notes": Notes,
        "noted": _noted, "int32": np.int32, "word": np.int64,
        **{f"{part}_type": dtype for part, (_, dtype) in forms.items()},
    }  # fmt: skip
    size = {part: math.prod(shape) for part, (shape, _) in forms.items()}
    each = {part: size[part] * dtype.itemsize for part, (_, dtype) in forms.items()}
    words = each["states"] // WORD
    copied = [part for part in ("observations", "rewards") if size[part] <= FEW]
    own = ["states", "scratch", *copied, *(() if world.info else ("infos", "final_infos"))]
    at = {part: f"at[{k}]" for k, part in enumerate(PLACES)}
    kinds = world.hard_kinds
    lines = [
        "def kernel(at, tables, n, per_env, mode, strict):",
        f"    trouble = carray(pointer({at['trouble']}), (1,), int32)",
        f"    count = carray(pointer({at['count']}), ({kinds},), int32)",
        f"    hard = carray(pointer({at['hard']}), ({kinds}, n), int32)",
        f"    i = {'noted(count, hard)' if name == 'step_hard' else 'cuda.grid(1)'}",
        "    if i < 0 or i >= n:",
        "        return",
    ]
    for part, (shape, _) in forms.items():
        source = FLAT.get(part, part)
        if part in own:
            scope[f"{part}_memory"] = _memory(each[part])
            lines.append(f"    {part}_at = {part}_memory()")
        elif source in own:
            lines.append(f"    {part}_at = {source}_at")
        else:
            far = "0" if part in SHARED else f"i * per_env * {each[part]}" if part == "params" else f"i * {each[part]}"
            lines.append(f"    {part}_at = pointer({at[source]} + {far})")
        lines.append(f"    {part} = carray({part}_at, {shape}, {part}_type)")
    lines.append(f"    here = carray(states_at, ({words},), word)")
    lines.append(f"    there = carray(pointer({at['states']}), ({words}, n), word)")
    copies = [("here[k]", "there[k, i]", words)]
    for part in copied:
        lines.append(f"    {part}_here = carray({part}_at, ({size[part]},), {part}_type)")
        lines.append(f"    {part}_there = carray(pointer({at[part]} + i * {each[part]}), ({size[part]},), {part}_type)")
        copies.append((f"{part}_here[k]", f"{part}_there[k]", size[part]))
    lines += [f"    for k in range({many}):\n        {mine} = {its}" for mine, its, many in copies]
    lines.append(
        f"    device(Columns({', '.join(COLUMNS)}), tables, 0, 0, mode, strict, Notes(trouble, count, hard, i))"
    )
    lines += [f"    for k in range({many}):\n        {its} = {mine}" for mine, its, many in copies]
    exec("\n".join(lines), scope)  # noqa: S102 - made of our own names
    return scope["kernel"]


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


def _memory(size: int) -> Any:
    """A function that returns so many bytes of the thread's own memory. (Numba's own would fill them with zeros.)"""

    def memory(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            with builder.goto_entry_block():
                place = builder.alloca(cgutils.ir.ArrayType(cgutils.int8_t, size))
                place.align = 16
            return builder.bitcast(place, cgutils.voidptr_t)

        return types.voidptr(), generate

    return intrinsic(memory)
