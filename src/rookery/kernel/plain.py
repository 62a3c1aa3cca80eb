"""Kernel worlds as plain Python: slow, but a debugger can stop anywhere in them.

Every number that is read is a Python number, so arithmetic uses doubles, as in compiled code (see native_compiler.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from types import FunctionType
from typing import Any

import numpy as np

from rookery.kernel.batch_loop import build_loop
from rookery.kernel.env_arrays import EPISODE_STATS, HEADER, EnvArrays, EpisodeStats, read_only
from rookery.kernel.env_loop import COLUMNS, Columns
from rookery.kernel.plain_values import PlainRows
from rookery.kernel.translate import closed_over, read_names, rebound
from rookery.kernel.world import ARGUMENTS, KernelWorld

NARROW = "?bBhHiIef"  # NumPy's characters for types with less than 64 bits


def with_plain_constants(world: KernelWorld) -> KernelWorld:
    """The world, with NumPy constants in its functions replaced by Python numbers where NumPy computes differently: in
    NumPy, a sum of bytes is a byte. The functions keep their code objects, so that breakpoints work."""
    plain, done = copy(world), dict[FunctionType, FunctionType]()
    for role in ARGUMENTS:
        function = getattr(world, role, None)
        if isinstance(function, FunctionType):
            setattr(plain, role, _with_plain_constants(function, done))
    return plain


def _with_plain_constants(function: FunctionType, done: dict[FunctionType, FunctionType]) -> FunctionType:
    if function not in done:
        done[function] = function  # set first: the function may call itself
        known = function.__globals__
        names = {name: _constant(known[name], done) for name in read_names(function) if name in known}
        cells = {name: _constant(value, done) for name, value in closed_over(function).items()}
        old = {**known, **closed_over(function)}
        if any(value is not old[name] for name, value in (*names.items(), *cells.items())):
            done[function] = rebound(function, {**known, **names}, cells)
    return done[function]


def _constant(value: Any, done: dict[FunctionType, FunctionType]) -> Any:
    if isinstance(value, FunctionType):
        return _with_plain_constants(value, done)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.char in NARROW:
        return PlainRows(value) if isinstance(value, np.ndarray) and value.ndim else value.item()
    return value


def entry_point(world: KernelWorld) -> Any:
    """Like `native.entry_point`, but the function takes an EnvArrays and its plan."""
    run = build_loop(with_plain_constants(world))

    def entry(env_arrays: EnvArrays, plan: np.ndarray, command: int, low: int, high: int, slot: int) -> int:
        columns: Any = Columns(*_wrapped(env_arrays, COLUMNS))
        columns = columns._replace(params=PlainRows(read_only(env_arrays.params)))
        episode_stats = EpisodeStats(*_wrapped(env_arrays, EPISODE_STATS))
        tables = env_arrays.tables_type(*map(PlainRows, env_arrays.tables.values()))
        return run(columns, tables, episode_stats, command, low, high, slot, plan[: len(HEADER)].tolist())

    return entry


def _wrapped(env_arrays: EnvArrays, names: Iterable[str]) -> list[PlainRows]:
    return [PlainRows(env_arrays.arrays[name]) for name in names]
