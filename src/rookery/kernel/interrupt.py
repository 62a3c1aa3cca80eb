"""A step that never ends can be ended: compiled loops look up from their work now and then.

Every `while` loop in a world's code counts its turns, and looks up every thousandth. A `for` loop over a range counts
them all before the first, and looks up then; one of more than 2**32 turns is refused. To look up is to look

- at the plan of the call, where another thread may have written that the call is to stop;
- at the clock, if there is a time limit;
- at signals, which Python would not see before the call returns.

What it finds ends the call by an exception.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
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

from rookery.kernel.atomics import NUMBER, WORD, call_c, load, store
from rookery.kernel.env_arrays import GO_ON, INTERRUPTED, PLAN_WORDS, TIMED_OUT

LOOK_EVERY = 1024  # turns of a loop; a power of two
PAUSE = 20_000_000  # nanoseconds between two looks at signals, which take Python's lock
FEW_TURNS = 64  # a loop over a constant range of so many does not count
MOST_TURNS = 2**32  # of a `for` loop, which looks up before its first turn only
CLOCK, TIMEOUT, NEXT_LOOK, STOP = (8 * PLAN_WORDS.index(name) for name in ("clock", "timeout", "next_look", "stop"))

# Words that compiled code finds by the name of a symbol. A raised exception waits in the last three.
BOARD = "rookery_board"
IS_OVER = "rookery_is_over"
KEY, CLOCK_ID, MAIN_THREAD, RAISED = (8 * k for k in range(4))
INT = cgutils.ir.IntType(32)


@lru_cache
def prepare() -> np.ndarray:
    """Set up the board, before any code that reads it is loaded."""
    board = np.zeros(6, np.int64)
    key = ctypes.c_uint()
    ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None)
    board[KEY // 8] = key.value
    board[CLOCK_ID // 8] = getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)  # that of time.monotonic_ns()
    _note_main_thread(board)
    os.register_at_fork(after_in_child=lambda: _note_main_thread(board))
    llvm.add_symbol(BOARD, board.ctypes.data)
    return board


def _note_main_thread(board: np.ndarray) -> None:
    board[MAIN_THREAD // 8] = threading.main_thread().ident or 0


def raise_interrupt() -> None:
    """Raise what a signal's handler raised in the call that was stopped for it."""
    board = prepare()
    raised = [ctypes.c_void_p(int(word)) for word in board[RAISED // 8 :]]
    board[RAISED // 8 :] = 0
    ctypes.pythonapi.PyErr_Restore(*raised)  # takes the three references over; ctypes then raises


# --- compiled ---------------------------------------------------------------------------------------------------------


def is_over() -> int:
    """What a loop asks when it looks up. It is compiled on its own, and found by the name IS_OVER: where it could be
    inlined into every loop, a step of hockey would take 5 % longer."""
    return should_stop(attended())


def should_stop(plan: int) -> int:
    """Whether the call with the plan at this address is to end; if it is, the plan says so to all its threads."""
    if load(plan + STOP) != GO_ON:
        return 1
    now = clock()
    if now < load(plan + NEXT_LOOK):
        return 0
    store(plan + NEXT_LOOK, now + PAUSE)
    timeout = load(plan + TIMEOUT)
    if timeout != 0 and now - load(plan + CLOCK) > timeout:
        store(plan + STOP, TIMED_OUT)
    elif signals_raise():
        store(plan + STOP, INTERRUPTED)
    return int(load(plan + STOP) != GO_ON)


@intrinsic
def attend(typing_context: Any, plan: Any) -> Any:
    """Note for this thread which plan its call belongs to."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        key = builder.trunc(_board_word(builder, KEY), INT)
        pointer = builder.bitcast(arguments[0], cgutils.voidptr_t)
        return builder.sext(call_c(builder, "pthread_setspecific", [key, pointer], INT), WORD)

    return NUMBER(plan), generate


@intrinsic
def attended(typing_context: Any) -> Any:
    """The address of that plan."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        key = builder.trunc(_board_word(builder, KEY), INT)
        return builder.ptrtoint(call_c(builder, "pthread_getspecific", [key], cgutils.voidptr_t), WORD)

    return NUMBER(), generate


@intrinsic
def clock(typing_context: Any) -> Any:
    """The time of `time.monotonic_ns()`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        now = cgutils.alloca_once(builder, WORD, size=WORD(2))
        call_c(builder, "clock_gettime", [builder.trunc(_board_word(builder, CLOCK_ID), INT), now], INT)
        seconds, rest = builder.load(now), builder.load(builder.gep(now, [WORD(1)]))
        return builder.add(builder.mul(seconds, WORD(10**9)), rest)

    return NUMBER(), generate


@intrinsic
def signals_raise(typing_context: Any) -> Any:
    """Let Python handle signals, if this is its main thread. Keeps the exception, if that raises one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        raised = cgutils.alloca_once_value(builder, INT(0))
        here = call_c(builder, "pthread_self", [])
        with builder.if_then(builder.icmp_unsigned("==", here, _board_word(builder, MAIN_THREAD))):
            lock = call_c(builder, "PyGILState_Ensure", [], INT)
            builder.store(call_c(builder, "PyErr_CheckSignals", [], INT), raised)
            with builder.if_then(cgutils.is_not_null(builder, builder.load(raised))):
                kept = [builder.gep(_board(builder), [WORD(RAISED // 8 + k)]) for k in range(3)]
                call_c(builder, "PyErr_Fetch", kept, cgutils.ir.VoidType())
            call_c(builder, "PyGILState_Release", [lock], cgutils.ir.VoidType())
        return builder.sext(builder.load(raised), WORD)

    return NUMBER(), generate


def _board(builder: Any) -> Any:
    found = builder.module.globals.get(BOARD)
    return found or cgutils.ir.GlobalVariable(builder.module, WORD, BOARD)


def _board_word(builder: Any, offset: int) -> Any:
    return builder.load(builder.gep(_board(builder), [WORD(offset // 8)]))


@intrinsic
def look_up(typing_context: Any) -> Any:
    """Raises if the call is to end."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        over = call_c(builder, IS_OVER, [])
        with builder.if_then(cgutils.is_not_null(builder, over), likely=False):
            context.call_conv.return_user_exc(builder, InterruptedError, ())
        return context.get_dummy_value()

    return types.void(), generate


_jit = numba.njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


@_jit
def count_turn(turns: int) -> int:
    """One more turn of a `while` loop."""
    turns += 1
    if turns % LOOK_EVERY == 0:
        look_up()
    return turns


@_jit
def count_range(turns: int, numbers: Any) -> int:
    """All turns of a `for` loop over a range, before the first. Counted one by one, hockey would take 5 % longer."""
    turns += len(numbers)
    if turns >= LOOK_EVERY:
        if turns > MOST_TURNS:
            raise OverflowError
        look_up()
        turns = 0
    return turns


@register_pass(mutates_CFG=False, analysis_only=False)
class CountTurns(FunctionPass):
    """Has the loops of a function count their turns."""

    _name = "rookery_count_turns"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        code = state.func_ir
        ranges = [place for block in code.blocks.values() for place in _long_ranges(code, block)]
        loops = compute_cfg_from_blocks(code.blocks).loops().values()
        headers = [code.blocks[loop.header] for loop in loops]
        first = code.blocks[min(code.blocks)]
        for block, statement, numbers in ranges:
            _insert(first, block, block.body.index(statement), count_range, numbers)
        for header in headers:
            if next(header.find_exprs("iternext"), None) is None:
                _insert(first, header, 0, count_turn)
        code._definitions = build_definitions(code.blocks)
        return True


def _insert(first: Any, block: Any, place: int, function: Any, *arguments: Any) -> None:
    """`turns = function(turns, *arguments)` at a place in a block, and `turns = 0` at the start of the function."""
    at = block.loc
    turns, called = block.scope.redefine("$turns", at), block.scope.redefine("$count", at)
    block.body[place:place] = [
        ir.Assign(ir.FreeVar(0, function.__name__, function, at), called, at),
        ir.Assign(ir.Expr.call(called, (turns, *arguments), (), at), turns, at),
    ]
    first.body.insert(0, ir.Assign(ir.Const(0, at), turns, at))


def _long_ranges(code: Any, block: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The `for` loops over a range that begin in a block, as (block, statement, the range), without those that are
    known to be short."""
    for statement in block.find_insts(ir.Assign):
        if not isinstance(statement.value, ir.Expr) or statement.value.op != "getiter":
            continue
        made = guard(get_definition, code, statement.value.value)
        if isinstance(made, ir.Expr) and made.op == "call" and _constant(code, made.func) is range:
            limits = [_constant(code, limit) for limit in made.args]
            if not all(isinstance(limit, int) for limit in limits) or len(range(*limits)) > FEW_TURNS:
                yield block, statement, statement.value.value


def _constant(code: Any, variable: Any) -> Any:
    made = guard(get_definition, code, variable)
    return made.value if isinstance(made, (ir.Const, ir.Global, ir.FreeVar)) else None
