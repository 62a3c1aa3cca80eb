"""Ends the step of one env when its code raised, so that the other envs of the batch go on. Needs Numba.

Plain Python raises at once instead: these functions are for compiled code only.
"""

from __future__ import annotations

from typing import Any

from rookery.atomics import load
from rookery.kernel.call_record import FIRST, LOOPING, PLACE, PLAN, SECOND
from rookery.kernel.env_arrays import CONTINUE, PLAN_WORDS
from rookery.kernel.env_loop import FAILED_CHECK, FAULT, OVER
from rookery.kernel.translate import Function

STOP = 8 * PLAN_WORDS.index("stop")


def build_catch(function: Function) -> Function:
    """What is done for one env, with `stats` after the tables. It returns FAULT if that raises."""

    def call(columns: Any, tables: Any, stats: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        stats.calls[slot, LOOPING] = 0
        try:
            outcome = function(columns, tables, i, slot, per_env, mode, strict)
        except Exception:  # noqa: BLE001 - compiled code cannot tell one from another
            outcome = fail(columns, stats, i, slot)
        return outcome

    return call


def fail(columns: Any, stats: Any, i: int, slot: int) -> int:
    """End the episode of env i, and note why."""
    if load(stats.calls[slot, PLAN] + STOP) != CONTINUE:
        raise InterruptedError  # which ends the call
    columns.failures[i, 0] = stats.calls[slot, PLACE]
    columns.failures[i, 1] = stats.calls[slot, FIRST]
    columns.failures[i, 2] = stats.calls[slot, SECOND]
    stats.calls[slot, PLACE] = 0
    columns.faults[i] = FAILED_CHECK
    columns.states[i].stage = OVER
    return FAULT
