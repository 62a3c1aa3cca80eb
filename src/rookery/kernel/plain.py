"""Kernel worlds as plain Python: slow, but a debugger can stop anywhere in them.

Every number that is read is a Python number, so arithmetic uses doubles, as in compiled code (see native_compiler.py).
Before a world is compiled, a few steps of it run here: the errors of plain Python are clearer than the compiler's.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy, deepcopy
from functools import wraps
from types import FunctionType
from typing import Any

import numpy as np

from rookery.errors import RookeryError
from rookery.kernel.batch_loop import RESET, STEP, build_loop
from rookery.kernel.diagnosis import error_in_world, line_raised, refuse_unsupported
from rookery.kernel.env_arrays import EPISODE_STATS, HEADER, EnvArrays, EpisodeStats, read_only
from rookery.kernel.env_loop import COLUMNS, SAME_STEP, Columns
from rookery.kernel.plain_values import PlainRows
from rookery.kernel.step_values import DryRunTimeout, refuse_lost_values, time_limit, truncates
from rookery.kernel.translate import closed_over, read_names, rebound
from rookery.kernel.world import ARGUMENTS, KernelWorld
from rookery.kernel.world_calls import build_easy_step

DRY_RUN_STEPS = 3
DRY_RUN_SECONDS = 5.0
_ENDED = {"terminated": "terminated", "truncated": "was truncated"}
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


# --- the dry run ------------------------------------------------------------------------------------------------------


def dry_run(world: KernelWorld) -> str | None:
    """Run a few steps in plain Python before compiling: its errors are clearer than the compiler's. If they take longer
    than DRY_RUN_SECONDS, it returns the line that was reached then: they may be slow, or never end."""
    refuse_lost_values(world)
    refuse_unsupported(world)
    env_arrays = EnvArrays(world, 1)
    plan, entry = env_arrays.plan(), entry_point(_with_checked_step(world))
    plan[2] = SAME_STEP
    env_arrays.reset_mask[:] = True
    action_space = deepcopy(world.action_space)
    action_space.seed(0)
    try:
        with time_limit(DRY_RUN_SECONDS):
            entry(env_arrays, plan, RESET, 0, 1, 0)
            for _ in range(DRY_RUN_STEPS):
                env_arrays.actions.reshape(world.num_agents, -1)[:] = [
                    np.ravel(action_space.sample()) for _ in range(world.num_agents)
                ]
                _try_easy(world, env_arrays)
                entry(env_arrays, plan, STEP, 0, 1, 0)
    except DryRunTimeout as reached:
        return line_raised(world, reached)
    except RookeryError:
        return None
    except Exception as error:
        if isinstance(error, ArithmeticError) and not str(error).startswith("integer "):
            return None  # division by zero gives infinity in compiled code, where the checks of values find it
        raise error_in_world(world, error) from error
    return None


def _try_easy(world: KernelWorld, env_arrays: EnvArrays) -> None:
    """Call `easy` for the next step of a copy: only a GPU calls it otherwise, so its errors would be found late."""
    if world.easy is None:
        return
    columns: Any = Columns(*(PlainRows(env_arrays.arrays[name].copy()) for name in COLUMNS))
    tables = env_arrays.tables_type(*map(PlainRows, env_arrays.tables.values()))
    columns.params.array.flags.writeable = False
    kind, *_ = build_easy_step(world)(columns, tables, 0, columns.states[0], columns.params[0])
    before, after = env_arrays.states, columns.states.array
    same = all(np.array_equal(before[name], after[name], equal_nan=True) for name in before.dtype.names or ())
    if kind != 0 and not same:  # compared field by field: the padding between fields is undefined
        raise ValueError(f"easy returned {kind}, for a hard step, after it had changed the state")


def _with_checked_step(world: KernelWorld) -> KernelWorld:
    """The world, with a step whose return value is checked: compiled code would accept None, and the values in the
    wrong order."""
    checked = copy(world)

    @wraps(world.step)
    def step(*arguments: Any) -> Any:
        returned = world.step(*arguments)
        values = ["reward"] * (world.num_agents == 1) + ["terminated"] + ["truncated"] * truncates(world)
        for name, value in zip(values, returned if len(values) > 1 else (returned,), strict=True):
            if name != "reward" and not isinstance(value, (bool, int, np.bool_, np.integer)):
                raise TypeError(f"{value!r} is not a bool for whether the episode {_ENDED[name]}")
        return returned

    checked.step = step
    return checked
