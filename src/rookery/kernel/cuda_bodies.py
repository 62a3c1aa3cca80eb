"""What one thread of a GPU does for one env, as plain Python functions that a compiler turns into kernels."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

from rookery.kernel.code_cache import fingerprint
from rookery.kernel.env_loop import BAD_ACTION, COLUMNS, FAULT, HARD, build
from rookery.kernel.translate import Function
from rookery.kernel.world import KernelWorld
from rookery.kernel.world_calls import build_action_check

HARD_BLOCK = 32  # long steps are few: in small blocks they spread over the whole GPU
# Whether anything is wrong; how many steps are long, by kind, and whose; the number of env 0.
Notes: Any = namedtuple("Notes", ("trouble", "count", "hard", "env"))  # type: ignore[misc]
NOTES = ("trouble", "count", "hard")  # those of them that lie in memory
FLOAT32 = ("rewards", "last_returns")  # what learners on a GPU want; the CPU keeps doubles
WORD = 8  # bytes; of such words every state consists
FLAT = {"flat": "observations", "flat_finals": "finals", "flat_actions": "actions"}  # the same memory, flat
PLACES = (*(name for name in COLUMNS if name not in (*FLAT, "scratch")), *NOTES)  # what kernels get addresses of
SHARED = ("low", "high", "action_low", "action_high")  # the same for every env


class Bodies(NamedTuple):
    """What one thread does, each as a function of (columns, tables, i, per_env, mode, strict, notes)."""

    step: Function  # steps env i
    step_if_easy: Function  # the same, or notes that the step is a long one
    step_hard: Function  # steps env i, which was noted
    begin: Function  # begins env i anew, if that is wanted


def build_bodies(world: KernelWorld, reserve: Function) -> Bodies:
    """The bodies of the kernels. `reserve(notes, kind)` hands out places in the list of hard envs of a kind."""
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
        if outcome >= HARD:
            kind = outcome - HARD
            notes.hard[kind, reserve(notes, kind)] = notes.env + i
        elif outcome == FAULT:
            notes.trouble[0] = 1

    def step_hard(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        if advance_running(columns, tables, i, 0, per_env, mode, strict) == FAULT:
            notes.trouble[0] = 1

    def begin_wanted(columns: Any, tables: Any, i: int, per_env: int, mode: int, strict: int, notes: Any) -> None:
        if columns.wanted[i] and begin(columns, tables, i, 0, per_env, strict) == FAULT:
            notes.trouble[0] = 1

    return Bodies(step, step_if_easy, step_hard, begin_wanted)


def key_of(bodies: Bodies, circumstances: Any) -> str:
    """A name for what compiling all of them gives: steps, short ones and long ones are code of their own."""
    return "".join(fingerprint(body, circumstances) for body in bodies)


def reserve_in_turn(notes: Any, kind: int) -> int:
    """`reserve` where threads run one after another."""
    place = notes.count[kind]
    notes.count[kind] = place + 1
    return place
