"""Compiles kernel worlds to machine code for this CPU. Import it late: it needs Numba.

Compiled code is called through one C function that receives a plan (see env_arrays.py). Such a call takes 0.6 us, where
Numba's own dispatcher takes 4 for as many arrays. The object code is cached on disk (see code_cache.py), so a second
start compiles nothing. It is plain object code, so that loading it unpickles nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from ctypes.util import find_library
from functools import partial
from time import monotonic_ns
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types
from numba.core import cgutils, registry
from numba.core.datamodel import models, register_default
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.runtime import rtsys
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from rookery.console import compiling
from rookery.errors import WorldError
from rookery.kernel import call_record, code_cache, failed_checks, interrupt
from rookery.kernel.batch_loop import RESET, STEP, build_loop
from rookery.kernel.diagnosis import explain_compile_errors
from rookery.kernel.env_arrays import EPISODE_STATS, HEADER, PLAN_WORDS, TIMED_OUT, EnvArrays, EpisodeStats
from rookery.kernel.env_loop import COLUMNS, FAILED_CHECK, FAULT, STOPPED, Columns, functions_of
from rookery.kernel.native_compiler import WorldCompiler, frozen
from rookery.kernel.plain import dry_run
from rookery.kernel.translate import called_once, translate
from rookery.kernel.world import KernelWorld, own_codes
from rookery.once import make_once, once
from rookery.part_compiler import EntryCompiler, part

INLINED = tuple(
    f"rookery.kernel.{name}"
    for name in ("batch_loop", "call_record", "env_loop", "observation_form", "world", "world_calls")
)
SIGNATURE = types.int64(types.CPointer(types.int64), types.int64, types.int64, types.int64, types.int64)
PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * 4)
TRIAL_SECONDS = 5.0  # for a reset or a step of one env

_loaded: dict[str, tuple[Any, Any]] = {}  # fingerprint -> (function, the LLVM engine that owns its code)


def entry_point(world: KernelWorld, checked: bool = False) -> Any:
    """The C function `f(plan_address, command, low, high, slot)`, which runs a command on envs [low, high) of a plan.

    It releases the GIL and returns the bitwise or of the envs' outcomes. With `checked`, an index out of bounds in the
    world's code ends the step of its env.
    """
    world.link()
    env_arrays = EnvArrays(world, 1)
    loop = build_loop(world, call_record.build_catch if checked else None)
    lines = failed_checks.lines_key(world) if checked else ""
    names = [*COLUMNS, *EPISODE_STATS, *env_arrays.tables]
    easy = code_cache.fingerprint(world.easy, "")  # not compiled here, but the dry run calls it
    key = code_cache.fingerprint(loop, [names, easy, _forms(env_arrays), lines, *_circumstances()])

    def load() -> tuple[Any, Any]:
        _link_poll()
        found = code_cache.find(world.name, key, lambda: _compile(world, env_arrays, loop, checked))
        return _load(*found, PROTOTYPE)

    return make_once(_loaded, key, load)[0]


def compiled(name: str, function: Any, signature: Any) -> Any:
    """A function of 64-bit integers as a C function that releases the GIL. It is cached on disk as worlds are."""
    key = code_cache.fingerprint(function, [str(signature), *_circumstances()])

    def load() -> tuple[Any, Any]:
        found = code_cache.find(name, key, lambda: _object_code(translate(function, _jit_own), signature))
        return _load(*found, ctypes.CFUNCTYPE(*[ctypes.c_int64] * (1 + len(signature.args))))

    return make_once(_loaded, key, load)[0]


def _circumstances() -> list[str]:
    cpu = [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    return [code_cache.sources_hash(), numba.__version__, *cpu]


def _forms(env_arrays: EnvArrays) -> list[Form]:
    """All that compiled code depends on, of each array. Parameters and tables are read-only."""
    others = len(COLUMNS) + len(EPISODE_STATS)
    tables = env_arrays.world.table_sizes
    fixed = {COLUMNS.index("params"), *range(others, others + len(env_arrays.tables))}
    known = [part.shape[1:] for part in env_arrays.parts()[:others]] + [tables.get(name) for name in env_arrays.tables]
    known[COLUMNS.index("memory")] = None  # worlds with more memory and less share their code
    return [(part.dtype, part.ndim, k in fixed, known[k]) for k, part in enumerate(env_arrays.parts())]


def _compile(world: KernelWorld, env_arrays: EnvArrays, loop: Any, checked: bool) -> tuple[str, bytes]:
    """The name of the entry point, and object code that holds it."""
    slow_line = dry_run(world)
    with compiling(world.name), explain_compile_errors(world):
        numbers = failed_checks.numbered(world) if checked else {}
        compiler = type("WorldCompiler", (WorldCompiler,), {"numbers": numbers})
        inlined = own_codes(world) | called_once(functions_of(world))
        jit = partial(_jit, inlined=inlined, compiler=compiler)
        made = _object_code(_entry(env_arrays, translate(loop, jit)), SIGNATURE)
    if slow_line is not None:
        _refuse_endless(world, made, slow_line)
    return made


def _refuse_endless(world: KernelWorld, made: tuple[str, bytes], line: str) -> None:
    """Refuse a world whose reset or first step does not end, before its code is stored. In plain Python it had reached
    this line when its time was over."""
    call, _engine = _load(*made, PROTOTYPE)
    env_arrays = EnvArrays(world, 1)
    plan = env_arrays.plan()
    plan[PLAN_WORDS.index("timeout")] = int(TRIAL_SECONDS * 1e9)
    env_arrays.reset_mask[:] = True
    for command, done in ((RESET, "reset"), (STEP, "step")):
        plan[PLAN_WORDS.index("clock")] = monotonic_ns()
        call(plan.ctypes.data, command, 0, 1, 0)
        if plan[PLAN_WORDS.index("stop")] == TIMED_OUT:
            raise WorldError(f"{world.name} does not end: its {done} was stopped after {TRIAL_SECONDS:g} seconds{line}")
        if env_arrays.faults[0] == FAILED_CHECK:
            raise failed_checks.error_of(world, "", env_arrays.failures[0])


def _object_code(function: Any, signature: Any) -> tuple[str, bytes]:
    interrupt.prepare()
    compiled_entry = numba.cfunc(signature, error_model="numpy", pipeline_class=EntryCompiler)
    made = compiled_entry(getattr(function, "py_func", function))
    module = llvm.parse_assembly(made.inspect_llvm())
    return made.native_name, _target_machine().emit_object(module)


def _jit(function: Any, inlined: Collection[Any], compiler: type) -> Any:
    """The loop's own functions are inlined: a call passes all columns, and a step of CartPole would take 325 ns instead
    of 30. So are the world's own functions, which have one or two callers, helpers that are called at one place, and
    what is decorated with `inlined`. For other helpers, LLVM decides."""
    if function.__module__ in INLINED:
        return _jit_own(function, forceinline=True)
    inline = function.__code__ in inlined or hasattr(function, "always_inlined")
    return _jit_own(function, forceinline=inline, pipeline_class=compiler)


def _jit_own(function: Any, **options: Any) -> Any:
    """Python does not call these functions, and nothing in them allocates: without the wrappers for that, compiling
    takes less than half the time."""
    return part(error_model="numpy", _nrt=False, **options)(function)


def _entry(env_arrays: EnvArrays, run: Any) -> Any:
    """The C entry point: reads the arrays of a plan and passes them to `run`."""
    forms, at = _forms(env_arrays), len(PLAN_WORDS)
    readers = []
    for named, by_reference in ((Columns, True), (EpisodeStats, True), (env_arrays.tables_type, False)):
        own, forms = forms[: len(named._fields)], forms[len(named._fields) :]
        readers.append(_reader(named, own, at, by_reference))
        at += sum(1 + ndim for _, ndim, _, _ in own)
    columns_of, stats_of, tables_of = readers
    header_of, begin_call = _header_reader(len(HEADER)), call_record.begin_call

    def entry(plan: Any, command: int, low: int, high: int, slot: int) -> int:
        columns, stats = columns_of(plan), stats_of(plan)
        begin_call(plan, stats.calls, slot)
        try:
            return run(columns, tables_of(plan), stats, command, low, high, slot, header_of(plan))
        except Exception:  # noqa: BLE001 - a C function cannot raise: the batch would be half stepped unnoticed
            columns.faults[low] = STOPPED
            return FAULT

    return entry


def _target_machine() -> Any:
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, reloc="default",
        codemodel="jitdefault", jit=True,
    )  # fmt: skip


def _load(name: str, code: bytes, prototype: Any) -> tuple[Any, Any]:
    """Load object code; returns its entry point, and the LLVM engine, which must outlive it."""
    _prepare_linker()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return prototype(engine.get_function_address(name)), engine


@once
def _link_poll() -> None:
    """Give the linker the functions that worlds call when a loop polls and when a check fails."""
    note = compiled("note-failure", call_record.note_failure, types.int64(types.int64, types.int64, types.int64))
    llvm.add_symbol(call_record.NOTE_SYMBOL, ctypes.cast(note, ctypes.c_void_p).value)
    poll = compiled("poll-current-call", interrupt.poll_current_call, types.int64(types.int64))
    llvm.add_symbol(interrupt.POLL_SYMBOL, ctypes.cast(poll, ctypes.c_void_p).value)


@once
def _prepare_linker() -> None:
    """Give the linker what compiled code may call: Numba's helpers and the C math library. (A name that the linker does
    not know becomes a null pointer.)"""
    interrupt.prepare()
    rtsys.initialize(registry.cpu_target.target_context)
    llvm.load_library_permanently(find_library("m") or "libm.so.6")


# --- the arrays of a plan, as compiled code sees them -----------------------------------------------------------------
# The functions around a world pass all columns to each other by reference. As a tuple of arrays these would be more
# than 200 arguments of every call: compiling CartPole took 8.3 s of processor time, and takes 5.8 s by reference. Steps
# are as fast: once everything is inlined, the compiler keeps in registers what it needs of them.

# Of an array: its elements, its number of dimensions, whether it is read-only, and its shape without the first number
# if that never changes: compiled code then knows that loops over it stay within it.
Form = tuple[np.dtype, int, bool, tuple[int, ...] | None]


class ByReference(types.Type):
    """A named tuple in the memory of the caller."""

    def __init__(self, named: types.NamedTuple) -> None:
        self.named = named
        super().__init__(name=f"ByReference({named})")


@register_default(ByReference)
class ByReferenceModel(models.PrimitiveModel):
    """A pointer to the values of the tuple."""

    def __init__(self, manager: Any, kind: ByReference) -> None:
        super().__init__(manager, kind, manager.lookup(kind.named).get_value_type().as_pointer())


@infer_getattr
class ByReferenceAttributes(AttributeTemplate):
    """The types of its fields."""

    key = ByReference

    def generic_resolve(self, kind: ByReference, name: str) -> Any:
        return kind.named[kind.named.fields.index(name)]


@lower_getattr_generic(ByReference)
def _load_field(context: Any, builder: Any, kind: ByReference, pointer: Any, name: str) -> Any:
    at = kind.named.fields.index(name)
    value = builder.load(cgutils.gep_inbounds(builder, pointer, 0, at))
    return impl_ret_borrowed(context, builder, kind.named[at], value)


def _reader(named: Any, forms: Sequence[Form], at: int, by_reference: bool) -> Any:
    """A function of a plan's address, for compiled code: the arrays from word `at` of the plan on, as a named tuple."""
    kinds = [types.Array(from_dtype(dtype), ndim, "C") for dtype, ndim, _, _ in forms]
    kinds = [frozen(kind) if form[2] else kind for kind, form in zip(kinds, forms, strict=True)]
    made = types.NamedTuple(kinds, named)

    @intrinsic
    def read(typing_context: Any, plan: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            words = _Words(builder, arguments[0], at)
            arrays = [
                _array(context, builder, kind, rest, words) for kind, (*_, rest) in zip(kinds, forms, strict=True)
            ]
            value = context.make_tuple(builder, made, arrays)
            return cgutils.alloca_once_value(builder, value) if by_reference else value

        return (ByReference(made) if by_reference else made)(plan), generate

    return read


def _header_reader(count: int) -> Any:
    """A function of a plan's address, for compiled code: the plan's first `count` numbers."""

    @intrinsic
    def read(typing_context: Any, plan: Any) -> Any:
        made = types.UniTuple(types.int64, count)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            words = _Words(builder, arguments[0], 0)
            return context.make_tuple(builder, made, [words.take() for _ in range(count)])

        return made(plan), generate

    return read


class _Words:
    """Reads a plan word by word."""

    def __init__(self, builder: Any, plan: Any, at: int) -> None:
        self._builder, self._plan, self._at = builder, plan, at

    def take(self) -> Any:
        word = self._builder.load(cgutils.gep(self._builder, self._plan, self._at))
        self._at += 1
        return word


def _array(context: Any, builder: Any, kind: types.Array, rest: tuple[int, ...] | None, words: _Words) -> Any:
    """A contiguous array, from its address and its shape, of which the `rest` may be known."""
    address = words.take()
    shape = [words.take() for _ in range(kind.ndim)]
    shape[1:] = [context.get_constant(types.intp, size) for size in rest] if rest is not None else shape[1:]
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides = [itemsize]
    for size in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], size))
    array = context.make_array(kind)(context, builder)
    data = builder.inttoptr(address, context.get_data_type(kind.dtype).as_pointer())
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
    return array._getvalue()
