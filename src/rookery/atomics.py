"""For compiled code: atomic operations on 64-bit words that threads share, sleeping and waking, and calls of C
functions; and the threads of a team, which stay in such code. Needs Numba."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import weakref
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

NUMBER = types.int64
JOIN_SECONDS = 1.0
MOST_THREADS = 1024  # of a team
LINE = 64  # bytes of a cache line
CLOSED, ASLEEP, WAKE_READ, WAKE_WRITE, OWN_WORDS = range(
    0, 5 * LINE, LINE
)  # of a team's words, by their offset in bytes
WORD, BYTE = cgutils.ir.IntType(64), cgutils.ir.IntType(8)

llvm.initialize_native_asmparser()  # for the inline assembly of `cpu_pause`


def word_at(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, WORD.as_pointer())


def _atomic(operation: str) -> Any:
    """A function of (address, value) that changes the word atomically and returns its old value."""

    def change(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.atomic_rmw(operation, word_at(builder, arguments[0]), arguments[1], "seq_cst")

        return NUMBER(NUMBER, NUMBER), generate

    change.__name__ = f"atomic_{operation}"
    return intrinsic(change)


atomic_add, atomic_or, atomic_exchange = _atomic("add"), _atomic("or"), _atomic("xchg")


@intrinsic
def load(typing_context: Any, address: Any) -> Any:
    """Load a word atomically."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(word_at(builder, arguments[0]), "seq_cst", 8)

    return NUMBER(NUMBER), generate


@intrinsic
def store(typing_context: Any, address: Any, value: Any) -> Any:
    """Store a word atomically. A thread that reads the new value also sees all earlier writes of this thread."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], word_at(builder, arguments[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(NUMBER, NUMBER), generate


@intrinsic
def cpu_pause(typing_context: Any) -> Any:
    """Wait for some dozens of cycles, in which a sibling hardware thread has the core. (ARM's own hint, `yield`, takes
    no time at all on most of its processors.)"""
    hint = "isb" if platform.machine() in ("aarch64", "arm64") else "pause"

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        nothing = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [])
        builder.call(cgutils.ir.InlineAsm(nothing, hint, "", side_effect=True), [])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def yield_thread(typing_context: Any) -> Any:
    """`sched_yield`: lets another thread or process that waits for this core run first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return call_c(builder, "sched_yield", [])

    return NUMBER(), generate


def call_c(builder: Any, name: str, arguments: list[Any], returns: Any = WORD) -> Any:
    """Call a function of the C library or of Python's C API, which the linker finds in this process."""
    kind = cgutils.ir.FunctionType(returns, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


@intrinsic
def wait_for_wake(typing_context: Any, wake_read: Any) -> Any:
    """Sleep until a byte can be read from the pipe."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return call_c(builder, "read", [arguments[0], cgutils.alloca_once(builder, BYTE), WORD(1)])

    return NUMBER(NUMBER), generate


@intrinsic
def wake(typing_context: Any, wake_write: Any, sleeping: Any) -> Any:
    """Write one byte per sleeping thread to the pipe."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bytes_written = cgutils.alloca_once(builder, BYTE, size=WORD(MOST_THREADS))
        return call_c(builder, "write", [arguments[0], bytes_written, arguments[1]])

    return NUMBER(NUMBER, NUMBER), generate


@intrinsic
def call_entry(typing_context: Any, entry: Any, plan: Any, command: Any, low: Any, high: Any, slot: Any) -> Any:
    """Call the entry point of a compiled world (see native.py) at an address, with the plan at another address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = cgutils.ir.FunctionType(WORD, [WORD.as_pointer(), *[WORD] * 4])
        entry, plan, *rest = arguments
        function = builder.inttoptr(entry, kind.as_pointer())
        return builder.call(function, [word_at(builder, plan), *rest])

    return NUMBER(*[NUMBER] * 6), generate


def start_threads(team: object, words: np.ndarray, threads: int, work: Callable[[int, int], Any], name: str) -> Any:
    """Start the threads of a team beside its caller's: each runs `work(address of the words, slot)` until the word
    CLOSED is set. Those that count themselves as ASLEEP wait for a byte of the pipe. Returns what stops and joins them,
    which also happens when the team is garbage-collected; a forked process has none of them."""
    pipe = _Pipe(threads)
    words[WAKE_READ // 8], words[WAKE_WRITE // 8] = pipe.read, pipe.write
    others = [
        threading.Thread(target=_work, args=(work, words, slot, pipe), name=f"{name}-{slot}", daemon=True)
        for slot in range(1, threads)
    ]
    for thread in others:
        thread.start()
    return weakref.finalize(team, _stop, words, others, pipe, os.getpid())


class _Pipe:
    """What wakes threads. The last one that leaves closes it: its descriptors could be reused for another file."""

    def __init__(self, users: int) -> None:
        self.read, self.write = os.pipe()
        self._users, self._lock = users, threading.RLock()  # garbage may be collected while it is held

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self.close()

    def close(self) -> None:
        os.close(self.read)
        os.close(self.write)


def _work(work: Callable[[int, int], Any], words: np.ndarray, slot: int, pipe: _Pipe) -> None:
    """A thread's target. Its argument keeps the words alive."""
    try:
        work(words.ctypes.data, slot)
    finally:
        pipe.leave()


def _stop(words: np.ndarray, threads: list[threading.Thread], pipe: _Pipe, pid: int) -> None:
    """Garbage is collected anywhere: in one of these threads, or while Numba compiles something. A thread that has yet
    to load its code waits for Numba then, so nobody waits for the thread without a limit."""
    if pid != os.getpid():
        pipe.close()
        return
    words[CLOSED // 8] = 1
    with contextlib.suppress(OSError):
        os.write(pipe.write, bytes(len(threads)))
    pipe.leave()
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(JOIN_SECONDS)
