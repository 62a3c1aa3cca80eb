"""What one thread's call of compiled code notes beside the envs' arrays: where a check failed, and when a loop began.

Each slot has a row of words for it (`calls` in env_arrays.py), which compiled code finds by thread-local storage: a
world's helpers do not know which env they work for. What an env's code raised ends the step of that env, and the other
envs of the batch continue. (Plain Python raises at once instead.)
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from rookery.atomics import NUMBER, WORD, call_c, load, store
from rookery.kernel.env_arrays import CONTINUE, PLAN_WORDS
from rookery.kernel.env_loop import FAILED_CHECK, FAULT, OVER
from rookery.kernel.translate import Function

PLAN, PLACE, FIRST, SECOND, LOOPING = range(5)  # the words of a row
KEY_SYMBOL = "rookery_call_key"  # the word that holds the key of the thread-local storage
NOTE_SYMBOL = "rookery_note_failure"
INT = cgutils.ir.IntType(32)


@lru_cache
def prepare() -> np.ndarray:
    """Create the thread-local storage, before any code that uses it is loaded."""
    key = ctypes.c_uint()
    ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None)
    word = np.array([key.value], np.int64)
    llvm.add_symbol(KEY_SYMBOL, word.ctypes.data)
    return word


# --- compiled ---------------------------------------------------------------------------------------------------------


def note_failure(place: int, first: int, second: int) -> int:
    """Note a failed check of this thread's call. It is compiled on its own and found by the name NOTE_SYMBOL."""
    call = current_call()
    store(call + 8 * PLACE, place)
    store(call + 8 * FIRST, first)
    store(call + 8 * SECOND, second)
    return 0


@intrinsic
def begin_call(typing_context: Any, plan: Any, calls: Any, slot: Any) -> Any:
    """Make row `slot` of `calls` the record of this thread's call with a plan."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        plan, calls, slot = arguments
        array = make_array(signature.args[1])(context, builder, calls)
        row = cgutils.get_item_pointer(context, builder, signature.args[1], array, [slot, WORD(0)])
        builder.store(builder.ptrtoint(plan, WORD), row)
        for word in (PLACE, LOOPING):
            builder.store(WORD(0), builder.gep(row, [WORD(word)]))
        pointer = builder.bitcast(row, cgutils.voidptr_t)
        call_c(builder, "pthread_setspecific", [_key(builder), pointer], INT)
        return context.get_dummy_value()

    return types.void(plan, calls, slot), generate


@intrinsic
def current_call(typing_context: Any) -> Any:
    """The address of the record of this thread's call."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(call_c(builder, "pthread_getspecific", [_key(builder)], cgutils.voidptr_t), WORD)

    return NUMBER(), generate


def _key(builder: Any) -> Any:
    found = builder.module.globals.get(KEY_SYMBOL) or cgutils.ir.GlobalVariable(builder.module, WORD, KEY_SYMBOL)
    return builder.trunc(builder.load(found), INT)


def emit_failure(context: Any, builder: Any, place: Any, first: Any, second: Any) -> None:
    """Note a failure and leave the function with an exception."""
    kind = cgutils.ir.FunctionType(WORD, [WORD] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, NOTE_SYMBOL)
    function.attributes.add("cold")
    builder.call(function, [place, first, second])
    context.call_conv.return_user_exc(builder, InterruptedError, ())


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
