"""Interrupts a step that does not end: loops in compiled code poll for a stop request.

Every `while` loop in a world's code counts its iterations and polls at every 1024th. A `for` loop over a range counts
all its iterations before the first one, and polls then; more than 2**32 iterations raise. A poll checks

- the plan of the call, where another thread may have written a stop request;
- the clock, if there is a time limit;
- signals, which Python would not handle before the call returns.

A stop request ends the call by an exception. Where a world is checked (see failed_checks.py), a loop that runs for
longer than ENDLESS_SECONDS in one step of one env, or over more than 2**32 numbers, ends the step of that env.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types
from numba.core import cgutils, ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions, get_definition, guard
from numba.extending import intrinsic

from rookery.atomics import NUMBER, WORD, call_c, load, store
from rookery.errors import WorldError
from rookery.kernel import call_record
from rookery.kernel.call_record import LOOPING, PLAN, current_call, emit_failure, note_failure
from rookery.kernel.env_arrays import CONTINUE, INTERRUPTED, PLAN_WORDS, TIMED_OUT
from rookery.kernel.failed_checks import ENDLESS, ENDLESS_SECONDS, LONG_LOOP, place_of
from rookery.once import once

POLL_EVERY = 1024  # iterations of a loop; a power of two
SIGNAL_POLL_NS = 20_000_000  # nanoseconds between two checks for signals, which take Python's lock
SHORT_LOOP = 64  # a loop over a constant range of at most this length is not counted
MAX_ITERATIONS = 2**32  # of a `for` loop, which polls only before its first iteration
CLOCK, TIMEOUT, NEXT_POLL, STOP = (8 * PLAN_WORDS.index(name) for name in ("clock", "timeout", "next_poll", "stop"))

# Words of memory that compiled code finds by a symbol's name. The last three hold an exception that a signal raised.
WORDS_SYMBOL = "rookery_interrupt_words"
POLL_SYMBOL = "rookery_poll"
CLOCK_ID, MAIN_THREAD, RAISED = (8 * k for k in range(3))
INT = cgutils.ir.IntType(32)


@once
def prepare() -> np.ndarray:
    """Set up the words, before any code that reads them is loaded."""
    if not hasattr(os, "register_at_fork"):
        raise WorldError("compiled kernel worlds need the threads of Linux or macOS: give plain=True, which is slow")
    call_record.prepare()
    words = np.zeros(5, np.int64)
    words[CLOCK_ID // 8] = getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)  # that of time.monotonic_ns()
    _store_main_thread(words)
    os.register_at_fork(after_in_child=lambda: _store_main_thread(words))
    llvm.add_symbol(WORDS_SYMBOL, words.ctypes.data)
    return words


def _store_main_thread(words: np.ndarray) -> None:
    words[MAIN_THREAD // 8] = threading.main_thread().ident or 0


def raise_interrupt() -> None:
    """Raise the exception of the signal handler that stopped the call."""
    words = prepare()
    raised = [ctypes.c_void_p(int(word)) for word in words[RAISED // 8 :]]
    words[RAISED // 8 :] = 0
    ctypes.pythonapi.PyErr_Restore(*raised)  # takes the three references over; ctypes then raises


# --- compiled ---------------------------------------------------------------------------------------------------------


def poll_current_call(place: int) -> int:
    """What a loop calls to poll: 1 means stop. It is compiled on its own and found by the name POLL_SYMBOL: if inlined
    into every loop, it would make a step of hockey 5 % slower. A place of 0 may take any time."""
    call = current_call()
    if should_stop(load(call + 8 * PLAN)) != 0:
        return 1
    return 0 if place == 0 else is_endless(call, place)


def is_endless(call: int, place: int) -> int:
    """Whether an env has been in loops for too long since its step began; if so, that is noted."""
    now, began = clock(), load(call + 8 * LOOPING)
    if began == 0:
        store(call + 8 * LOOPING, now)
        return 0
    if now - began < ENDLESS_SECONDS * 10**9:
        return 0
    note_failure(place, ENDLESS_SECONDS, 0)
    return 1


def should_stop(plan: int) -> int:
    """Whether the call with the plan at this address must stop; if so, the plan tells all threads of the call."""
    if load(plan + STOP) != CONTINUE:
        return 1
    now = clock()
    if now < load(plan + NEXT_POLL):
        return 0
    store(plan + NEXT_POLL, now + SIGNAL_POLL_NS)
    timeout = load(plan + TIMEOUT)
    if timeout != 0 and now - load(plan + CLOCK) > timeout:
        store(plan + STOP, TIMED_OUT)
    elif signals_raise():
        store(plan + STOP, INTERRUPTED)
    return int(load(plan + STOP) != CONTINUE)


@intrinsic
def clock(typing_context: Any) -> Any:
    """The time of `time.monotonic_ns()`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        now = cgutils.alloca_once(builder, WORD, size=WORD(2))
        call_c(builder, "clock_gettime", [builder.trunc(_load_word(builder, CLOCK_ID), INT), now], INT)
        seconds, rest = builder.load(now), builder.load(builder.gep(now, [WORD(1)]))
        return builder.add(builder.mul(seconds, WORD(10**9)), rest)

    return NUMBER(), generate


@intrinsic
def signals_raise(typing_context: Any) -> Any:
    """Let Python handle signals, if this is its main thread; whether a handler raised. The exception is stored."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        raised = cgutils.alloca_once_value(builder, INT(0))
        here = call_c(builder, "pthread_self", [])
        with builder.if_then(builder.icmp_unsigned("==", here, _load_word(builder, MAIN_THREAD))):
            lock = call_c(builder, "PyGILState_Ensure", [], INT)
            builder.store(call_c(builder, "PyErr_CheckSignals", [], INT), raised)
            with builder.if_then(cgutils.is_not_null(builder, builder.load(raised))):
                kept = [builder.gep(_words(builder), [WORD(RAISED // 8 + k)]) for k in range(3)]
                call_c(builder, "PyErr_Fetch", kept, cgutils.ir.VoidType())
            call_c(builder, "PyGILState_Release", [lock], cgutils.ir.VoidType())
        return builder.sext(builder.load(raised), WORD)

    return NUMBER(), generate


def _words(builder: Any) -> Any:
    found = builder.module.globals.get(WORDS_SYMBOL)
    return found or cgutils.ir.GlobalVariable(builder.module, WORD, WORDS_SYMBOL)


def _load_word(builder: Any, offset: int) -> Any:
    return builder.load(builder.gep(_words(builder), [WORD(offset // 8)]))


@intrinsic
def poll_interrupt(typing_context: Any, place: Any) -> Any:
    """Raise if the call, or the step of this env, must stop."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        stop = call_c(builder, POLL_SYMBOL, arguments)
        with builder.if_then(cgutils.is_not_null(builder, stop), likely=False):
            context.call_conv.return_user_exc(builder, InterruptedError, ())
        return context.get_dummy_value()

    return types.void(NUMBER), generate


@intrinsic
def refuse_range(typing_context: Any, place: Any, length: Any) -> Any:
    """Raise because a range is too long."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, length = arguments
        with builder.if_then(cgutils.true_bit, likely=False):
            emit_failure(context, builder, place, length, WORD(0))
        return context.get_dummy_value()

    return types.void(NUMBER, NUMBER), generate


_jit = numba.njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


@_jit
def count_iteration(iterations: int, endless: int, too_long: int) -> int:
    """Count one iteration of a `while` loop. The last two arguments are places: see failed_checks.py."""
    iterations += 1
    if iterations % POLL_EVERY == 0:
        poll_interrupt(endless)
    return iterations


@_jit
def count_range(iterations: int, endless: int, too_long: int, numbers: Any) -> int:
    """Count all iterations of a `for` loop before the first one. Counting each would make hockey 5 % slower."""
    iterations += len(numbers)
    if iterations >= POLL_EVERY:
        if iterations > MAX_ITERATIONS:
            refuse_range(too_long, len(numbers))
        poll_interrupt(endless)
        iterations = 0
    return iterations


@register_pass(mutates_CFG=False, analysis_only=False)
class CountIterations(FunctionPass):
    """A compiler pass: the loops of a function count their iterations."""

    _name = "rookery_count_iterations"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        code = state.func_ir
        ranges = [place for block in code.blocks.values() for place in _long_ranges(code, block)]
        loops = compute_cfg_from_blocks(code.blocks).loops().values()
        headers = [code.blocks[loop.header] for loop in loops]
        first = code.blocks[min(code.blocks)]
        for block, statement, numbers in ranges:
            places = [place_of(state, statement.loc.line, kind) for kind in (ENDLESS, LONG_LOOP)]
            _insert(first, block, block.body.index(statement), count_range, places, numbers)
        for header in headers:
            if next(header.find_exprs("iternext"), None) is None:
                places = [place_of(state, header.loc.line, kind) for kind in (ENDLESS, LONG_LOOP)]
                _insert(first, header, 0, count_iteration, places)
        code._definitions = build_definitions(code.blocks)
        return True


def _insert(first: Any, block: Any, at_statement: int, function: Any, places: list[int], *arguments: Any) -> None:
    """Insert `iterations = function(iterations, *places, *arguments)` in a block, and `iterations = 0` in the first
    block."""
    at = block.loc
    iterations, called = block.scope.redefine("$iterations", at), block.scope.redefine("$count", at)
    known = [block.scope.redefine("$place", at) for _ in places]
    block.body[at_statement:at_statement] = [
        *(ir.Assign(ir.Const(place, at), name, at) for place, name in zip(places, known, strict=True)),
        ir.Assign(ir.FreeVar(0, function.__name__, function, at), called, at),
        ir.Assign(ir.Expr.call(called, (iterations, *known, *arguments), (), at), iterations, at),
    ]
    first.body.insert(0, ir.Assign(ir.Const(0, at), iterations, at))


def _long_ranges(code: Any, block: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The `for` loops over a range that start in a block, as (block, statement, range), except those known to be
    short."""
    for statement in block.find_insts(ir.Assign):
        if not isinstance(statement.value, ir.Expr) or statement.value.op != "getiter":
            continue
        made = guard(get_definition, code, statement.value.value)
        if isinstance(made, ir.Expr) and made.op == "call" and _constant(code, made.func) is range:
            limits = [_constant(code, limit) for limit in made.args]
            if not all(isinstance(limit, int) for limit in limits) or len(range(*limits)) > SHORT_LOOP:
                yield block, statement, statement.value.value


def _constant(code: Any, variable: Any) -> Any:
    made = guard(get_definition, code, variable)
    return made.value if isinstance(made, (ir.Const, ir.Global, ir.FreeVar)) else None
