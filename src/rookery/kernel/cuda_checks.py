"""The checks of checks.py for a GPU, and what a kernel does when one fails. Import it late: it needs numba-cuda.

A thread notes a failed check in three words of shared memory, and leaves its functions with an error status, as after
an exception. The kernel reads both, and ends the env. Launches reserve the memory: see NOTED_BYTES.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numba import types
from numba.core import cgutils
from numba.cuda import compiler, nvvmutils
from numba.cuda.core import ir, ir_utils
from numba.cuda.core.compiler_machinery import FunctionPass, register_pass
from numba.cuda.core.untyped_passes import InlineClosureLikes
from numba.cuda.extending import intrinsic
from numba.cuda.np import arrayobj

from rookery.atomics import WORD
from rookery.kernel.check_code import Target, build_checks
from rookery.kernel.code_checks import Toolkit, insert_checks

SHARED_MEMORY = 3  # an address space
NOTES = "rookery_failed_checks"
FAILED = cgutils.ir.IntType(32)(1)  # the status of a function that raised
WORDS = 3  # of a failure
_compiling = threading.Lock()


def _noted(builder: Any, word: int) -> Any:
    """The address of a word of what this thread has noted. All shared memory whose size a launch sets is one piece."""
    kind = cgutils.ir.ArrayType(WORD, 0)
    notes = builder.module.globals.get(NOTES)
    if notes is None:
        notes = cgutils.ir.GlobalVariable(builder.module, kind, NOTES, SHARED_MEMORY)
        notes.linkage, notes.align = "external", 8
    first = builder.bitcast(notes, cgutils.ir.PointerType(WORD, SHARED_MEMORY))
    thread = builder.zext(nvvmutils.SRegBuilder(builder).tid("x"), WORD)
    return builder.gep(first, [builder.add(builder.mul(thread, WORD(WORDS)), WORD(word))])


def emit_failure(context: Any, builder: Any, place: Any, first: Any, second: Any) -> None:
    """Note a failure and leave the function."""
    for word, value in enumerate((place, first, second)):
        builder.store(value, _noted(builder, word))
    builder.ret(FAILED)


def same(builder: Any, value: Any) -> Any:
    """The value itself: this compiler has no `freeze`."""
    return value


TOOLS = Toolkit(ir, ir_utils, *build_checks(Target(intrinsic, arrayobj, emit_failure, same)))


@register_pass(mutates_CFG=False, analysis_only=False)
class CheckGpuCode(FunctionPass):
    """A compiler pass before type inference: inserts the checks into functions that are checked."""

    _name = "rookery_check_gpu_code"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        if state.func_id.func.__code__ not in state.numbers:
            return False
        insert_checks(TOOLS, state)
        return True


@contextmanager
def checking(numbers: Mapping[Any, int]) -> Iterator[None]:
    """In the meantime, numba-cuda checks the functions with these numbers. It has no option for a compiler of one's
    own."""
    if not numbers:
        yield
        return
    original = compiler.CUDACompiler

    class CheckingCompiler(original):  # type: ignore[valid-type, misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.state.numbers = numbers

        def define_pipelines(self) -> list[Any]:
            (passes,) = super().define_pipelines()
            passes.add_pass_after(CheckGpuCode, InlineClosureLikes)
            passes.finalize()
            return [passes]

    with _compiling:
        compiler.CUDACompiler = CheckingCompiler
        try:
            yield
        finally:
            compiler.CUDACompiler = original


@intrinsic
def call_checked(
    typing_context: Any, device: Any, columns: Any, tables: Any, i: Any, per_env: Any, mode: Any, strict: Any,
    notes: Any,
) -> Any:  # fmt: skip
    """Call a device function; whether it raised."""
    arguments = tuple(map(types.unliteral, (columns, tables, i, per_env, mode, strict, notes)))
    made = device.dispatcher.compile_device(arguments)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        context.add_linking_libs([made.library])
        status, _ = context.call_internal_no_propagate(builder, made.fndesc, made.signature, values[1:])
        return status.is_error

    return types.boolean(device, *arguments), generate


@intrinsic
def noted_word(typing_context: Any, word: Any) -> Any:
    """A word of what this thread has noted: 0 the place, 1 and 2 its numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _noted(builder, 0)
        return builder.load(builder.gep(first, [arguments[0]]))

    return types.int64(types.int64), generate
