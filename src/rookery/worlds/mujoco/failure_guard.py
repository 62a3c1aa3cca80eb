"""Survives errors of MuJoCo, for compiled code. Import it late: it needs Numba.

MuJoCo ends the process when it fails, for example if its memory is full, unless its log handler does not return. So
ours jumps back (`longjmp`) to where MuJoCo was called, as that of MuJoCo's Python bindings does. It also takes the
warnings, which are counted in the data, and reported as errors of the env: MuJoCo's lines on the terminal and its file
MUJOCO_LOG.TXT would say it a second time.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from rookery.atomics import BYTE, NUMBER, WORD, call_c, load, word_at
from rookery.kernel.native import compiled
from rookery.once import once

INT = cgutils.ir.IntType(32)
ERROR = 3  # mjLOG_ERROR
SUBJECT, LENGTH = 8, 1024  # where the text begins in an mjLogMessage, after its level and its topic; and its length
JUMP_BYTES = 1024  # more than any platform's jmp_buf
# Names by which the linker finds: a word with the key of the thread's jump buffer, then the text of the last error;
# MuJoCo's setter of a thread's log handler; our handler; and the function that calls MuJoCo.
WORDS, SET_HANDLER, HANDLER, GUARDED = (
    f"rookery_mujoco_{name}" for name in ("words", "set_handler", "handler", "guarded")
)


@once
def link(library: Any) -> np.ndarray:
    """Make this module's functions known to the linker; returns the words."""
    words, key = np.zeros(1 + LENGTH // 8, np.int64), ctypes.c_uint()
    ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None)
    words[0] = key.value
    llvm.add_symbol(WORDS, words.ctypes.data)
    _add(SET_HANDLER, library._mjPRIVATE_setTlsLogHandler)
    _add(HANDLER, compiled("mujoco-log-handler", _handle, NUMBER(NUMBER)))
    _add(GUARDED, compiled("mujoco-guarded-call", _guarded, NUMBER(*[NUMBER] * 4)))
    return words


def _add(name: str, function: Any) -> None:
    llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)


def last_error(words: np.ndarray) -> str:
    """What MuJoCo said when it failed last."""
    return words[1:].tobytes().partition(b"\0")[0].decode(errors="replace").strip()


# --- compiled ---------------------------------------------------------------------------------------------------------


def _guarded(function: int, model: int, data: int, times: int) -> int:
    """Call a function of MuJoCo; returns 1 if it failed. It is compiled on its own: nothing may be inlined around a
    place to which one jumps back, and nothing here is used after the jump."""
    set_handler(1)
    if place_to_return():
        set_handler(0)
        return 1
    for _ in range(times):
        _call_function(function, model, data)
    set_handler(0)
    return 0


def _handle(message: int) -> int:
    """The log handler of a thread while it calls MuJoCo."""
    return _jump_back(message + SUBJECT) if load(message) % 2**32 == ERROR else 0


@intrinsic
def set_handler(typing_context: Any, ours: Any) -> Any:
    """Give this thread our log handler (1), or none of its own (0)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = cgutils.ir.FunctionType(WORD, [WORD])
        handler = builder.ptrtoint(cgutils.get_or_insert_function(builder.module, kind, HANDLER), WORD)
        chosen = builder.select(cgutils.is_not_null(builder, arguments[0]), handler, WORD(0))
        return call_c(builder, SET_HANDLER, [chosen])

    return NUMBER(NUMBER), generate


@intrinsic
def place_to_return(typing_context: Any) -> Any:
    """`setjmp`: 0 at first, and 1 after the handler has jumped back here."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        buffer = cgutils.alloca_once(builder, WORD, size=WORD(JUMP_BYTES // 8))
        call_c(builder, "pthread_setspecific", [_key(builder), builder.bitcast(buffer, BYTE.as_pointer())], INT)
        kind = cgutils.ir.FunctionType(INT, [WORD.as_pointer()])
        set_jump = cgutils.get_or_insert_function(builder.module, kind, "_setjmp")
        set_jump.attributes.add("returns_twice")
        return builder.sext(builder.call(set_jump, [buffer]), WORD)

    return NUMBER(), generate


@intrinsic
def _jump_back(typing_context: Any, text: Any) -> Any:
    """Keep the text of an error, and `longjmp` to this thread's place."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kept = builder.bitcast(builder.gep(_words(builder), [WORD(1)]), BYTE.as_pointer())
        start = builder.inttoptr(arguments[0], BYTE.as_pointer())
        call_c(builder, "strncpy", [kept, start, WORD(LENGTH - 1)])
        buffer = call_c(builder, "pthread_getspecific", [_key(builder)], BYTE.as_pointer())
        call_c(builder, "longjmp", [buffer, INT(1)], cgutils.ir.VoidType())
        return WORD(0)

    return NUMBER(NUMBER), generate


@intrinsic
def _call_function(typing_context: Any, function: Any, model: Any, data: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [WORD.as_pointer()] * 2)
        called = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(called, [word_at(builder, part) for part in arguments[1:]])
        return context.get_dummy_value()

    return types.void(NUMBER, NUMBER, NUMBER), generate


def _words(builder: Any) -> Any:
    found = builder.module.globals.get(WORDS)
    return found or cgutils.ir.GlobalVariable(builder.module, WORD, WORDS)


def _key(builder: Any) -> Any:
    return builder.trunc(builder.load(_words(builder)), INT)
