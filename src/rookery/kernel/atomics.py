"""Words in memory that several threads share, and calls of the C library, for compiled code. It needs Numba."""

from __future__ import annotations

import platform
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

NUMBER = types.int64
WORD, BYTE = cgutils.ir.IntType(64), cgutils.ir.IntType(8)


def word_at(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, WORD.as_pointer())


def _atomic(operation: str) -> Any:
    """A function of (address, value) that changes a word at once for all threads, and returns what it was."""

    def change(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.atomic_rmw(operation, word_at(builder, arguments[0]), arguments[1], "seq_cst")

        return NUMBER(NUMBER, NUMBER), generate

    change.__name__ = f"atomic_{operation}"
    return intrinsic(change)


add, merge, exchange = _atomic("add"), _atomic("or"), _atomic("xchg")


@intrinsic
def load(typing_context: Any, address: Any) -> Any:
    """A word as it is now."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(word_at(builder, arguments[0]), "seq_cst", 8)

    return NUMBER(NUMBER), generate


@intrinsic
def store(typing_context: Any, address: Any, value: Any) -> Any:
    """Sets a word; whoever sees it sees what was written before, too."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], word_at(builder, arguments[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(NUMBER, NUMBER), generate


@intrinsic
def relax(typing_context: Any) -> Any:
    """Leaves the core to its other thread, where it has one, for some dozens of cycles."""
    hint = "yield" if platform.machine() in ("aarch64", "arm64") else "pause"

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        nothing = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [])
        builder.call(cgutils.ir.InlineAsm(nothing, hint, "", side_effect=True), [])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def give_way(typing_context: Any) -> Any:
    """Lets any other thread or process that waits for this core go first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return call_c(builder, "sched_yield", [])

    return NUMBER(), generate


def call_c(builder: Any, name: str, arguments: list[Any], returns: Any = WORD) -> Any:
    """A call of the C library or of Python's, which the linker finds in this process."""
    kind = cgutils.ir.FunctionType(returns, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)
