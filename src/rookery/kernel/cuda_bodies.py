"""The body of each GPU kernel: plain Python functions for one env, which a compiler turns into kernels.

A world with `easy` is stepped by two kernels. The first steps the envs whose step is easy, and lists the others, the
hard ones, by kind. The second steps the listed envs.

A world with a `simulation` (see declarations.py) has a kernel before it, and one for envs that begin an episode.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from rookery.kernel.code_cache import fingerprint
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import BAD_ACTION, COLUMNS, FAULT, HARD, RUNNING, build
from rookery.kernel.translate import Function
from rookery.kernel.world import KernelWorld, adapt
from rookery.kernel.world_calls import build_action_check

HARD_BLOCK = 32  # hard steps are few: small blocks spread them over the whole GPU
# Arrays: whether any env has a fault; the number of hard steps by kind; their envs. And the number of the body's env 0.
LaunchNotes: Any = namedtuple("LaunchNotes", ("any_fault", "count", "hard", "env"))
NOTE_ARRAYS = ("any_fault", "count", "hard")  # the fields of LaunchNotes that are arrays
FLOAT32 = ("rewards", "last_returns")  # learners on a GPU use single precision; the CPU keeps doubles
WORD_BYTES = 8  # bytes; a state's size is a multiple of this
FLAT = {"flat": "observations", "flat_finals": "finals", "flat_actions": "actions"}  # views of the same memory
ADDRESSED = (*(name for name in COLUMNS if name not in (*FLAT, "scratch")), *NOTE_ARRAYS)  # passed as addresses
SHARED = ("low", "high", "action_low", "action_high")  # the same for every env


class Bodies(NamedTuple):
    """What one thread runs, each a function of (columns, tables, i, per_env, mode, strict, notes)."""

    step: Function  # steps env i
    step_if_easy: Function  # steps env i if the step is easy, else lists it as hard
    step_hard: Function  # steps env i, which was listed as hard
    reset: Function  # resets env i if it is in `reset_mask`
    control: Function  # of a simulated world: what env i does before the simulation
    settle_begun: Function  # observes again after the simulation has settled env i, if a step began its episode
    settle_reset: Function  # the same, if env i is in `reset_mask`


def build_bodies(world: KernelWorld, reserve: Function) -> Bodies:
    """The bodies of the kernels. `reserve(notes, kind)` returns the next free index in the list of hard envs."""
    functions = build(world, windows_later=True, takes_staged=True)
    step_env, step_env_if_easy, step_running_env, reset_env, settle_env = functions
    fits, number, before_simulation = build_action_check(world), build_number(world), build_control(world)

    def refuse(columns: Any, i: int, notes: Any) -> None:
        columns.faults[i] = BAD_ACTION
        notes.any_fault[0] = 1

    def step(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        number(columns, i, notes)
        if not fits(columns, i):
            refuse(columns, i, notes)
        elif step_env(columns, tables, i, 0, per_env, mode, strict) == FAULT:
            notes.any_fault[0] = 1

    def step_if_easy(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        if not fits(columns, i):
            refuse(columns, i, notes)
            return
        outcome = step_env_if_easy(columns, tables, i, 0, per_env, mode, strict)
        if outcome >= HARD:
            kind = outcome - HARD
            notes.hard[kind, reserve(notes, kind)] = notes.env + i
        elif outcome == FAULT:
            notes.any_fault[0] = 1

    def step_hard(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        if step_running_env(columns, tables, i, 0, per_env, mode, strict) == FAULT:
            notes.any_fault[0] = 1

    def reset_masked(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        number(columns, i, notes)
        if columns.reset_mask[i] and reset_env(columns, tables, i, 0, per_env, strict) == FAULT:
            notes.any_fault[0] = 1

    def control(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        number(columns, i, notes)
        if columns.states[i].stage == RUNNING and fits(columns, i):
            before_simulation(columns, tables, i, per_env)

    def settle(columns: Any, tables: Any, i: int, per_env: int, strict: int, notes: Any) -> None:
        number(columns, i, notes)
        if settle_env(columns, tables, i, 0, per_env, strict) == FAULT:
            notes.any_fault[0] = 1

    def settle_begun(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        if columns.states[i].stage == RUNNING and columns.states[i].steps == 0:
            settle(columns, tables, i, per_env, strict, notes)

    def settle_reset(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        if columns.reset_mask[i] and columns.states[i].stage == RUNNING:
            settle(columns, tables, i, per_env, strict, notes)

    return Bodies(step, step_if_easy, step_hard, reset_masked, control, settle_begun, settle_reset)


def build_number(world: KernelWorld) -> Function:
    """Writes the number of the env into the scratch record: a simulated world finds its arrays by it."""

    def number(columns: Any, i: int, notes: Any) -> None:
        columns.scratch[0].simulated_env = notes.env + i

    def no_number(columns: Any, i: int, notes: Any) -> None:
        """The other worlds do not know their number."""

    return no_number if world.simulation is None else number


def build_control(world: KernelWorld) -> Function:
    """Calls what a simulated world does before the simulation."""

    def nothing(columns: Any, tables: Any, i: int, per_env: int) -> None:
        """The other worlds have no simulation."""

    if world.before_simulation is None:
        return nothing
    before_simulation = adapt(world.before_simulation, "before_simulation")

    def control(columns: Any, tables: Any, i: int, per_env: int) -> None:
        params = columns.params[i * per_env]
        before_simulation(columns.states[i], columns.actions[i], params, tables, columns.scratch[0])

    return control


def column_forms(world: KernelWorld) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """The shape and type of each column of a single env."""
    arrays = EnvArrays(world, 1).arrays
    return {
        name: (arrays[name].shape, np.dtype(np.float32) if name in FLOAT32 else arrays[name].dtype) for name in COLUMNS
    }


def key_of(bodies: Bodies, circumstances: Any) -> str:
    """The cache key of all kernels."""
    return fingerprint(tuple(bodies), circumstances)  # at once: they share most of their functions


def reserve_serially(notes: Any, kind: int) -> int:
    """`reserve` for bodies that run one after another."""
    place = notes.count[kind]
    notes.count[kind] = place + 1
    return place
