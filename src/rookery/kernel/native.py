"""Compiles kernel worlds to machine code for this CPU. Import it late: it needs Numba.

Compiled code is called through one C function that receives a plan (see env_arrays.py). Such a call takes 0.6 us, where
Numba's own dispatcher takes 4 for as many arrays. The object code is cached on disk (see code_cache.py), so a second
start compiles nothing. It is plain object code, so that loading it unpickles nothing.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
from collections.abc import Collection
from ctypes.util import find_library
from functools import lru_cache, partial
from typing import Any

import llvmlite.binding as llvm
import numba
from numba import types
from numba.core import registry
from numba.core.compiler import DefaultPassBuilder
from numba.core.runtime import rtsys
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import IRProcessing

from rookery import atomics
from rookery.console import say
from rookery.kernel import code_cache, interrupt, part_compiler, plan_arrays, readonly, widening
from rookery.kernel.batch_loop import build_loop
from rookery.kernel.diagnosis import dry_run, explain_compile_errors
from rookery.kernel.env_arrays import EPISODE_STATS, HEADER, PLAN_WORDS, EnvArrays, EpisodeStats
from rookery.kernel.env_loop import COLUMNS, FAULT, STOPPED, Columns
from rookery.kernel.part_compiler import PartCompiler
from rookery.kernel.plan_arrays import Form
from rookery.kernel.translate import translate
from rookery.kernel.world import KernelWorld, own_codes

INLINED = tuple(
    f"rookery.kernel.{name}" for name in ("batch_loop", "env_loop", "observation_form", "world", "world_calls")
)
SIGNATURE = types.int64(types.CPointer(types.int64), types.int64, types.int64, types.int64, types.int64)
PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * 4)

_loaded: dict[str, tuple[Any, Any]] = {}  # fingerprint -> (function, the LLVM engine that owns its code)


class WorldCompiler(PartCompiler):
    """With three more passes, for the functions of a world; the loop around them needs none."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(widening.WidenLoads, IRProcessing)
        passes.add_pass_after(interrupt.CountIterations, IRProcessing)
        passes.add_pass_after(readonly.RefuseWrites, NopythonTypeInference)
        passes.finalize()
        return [passes]


def entry_point(world: KernelWorld, checked: bool = False) -> Any:
    """The C function `f(plan_address, command, low, high, slot)`, which runs a command on envs [low, high) of a plan.

    It releases the GIL and returns the bitwise or of the envs' outcomes. With `checked`, an index out of bounds in the
    world's code ends the call.
    """
    world.link()
    env_arrays = EnvArrays(world, 1)
    loop = build_loop(world)
    names = [*COLUMNS, *EPISODE_STATS, *env_arrays.tables]
    easy = code_cache.fingerprint(world.easy, "")  # not compiled here, but the dry run calls it
    key = code_cache.fingerprint(loop, [names, easy, _forms(env_arrays), checked, _passes(), *_circumstances()])
    if key not in _loaded:
        _link_poll()
        found = code_cache.find(world.name, key, lambda: _compile(world, env_arrays, loop, checked))
        _loaded[key] = _load(*found, PROTOTYPE)
    return _loaded[key][0]


def compiled(name: str, function: Any, signature: Any) -> Any:
    """A function of 64-bit integers as a C function that releases the GIL. It is cached on disk as worlds are."""
    key = code_cache.fingerprint(function, [str(signature), *_circumstances()])
    if key not in _loaded:
        found = code_cache.find(name, key, lambda: _object_code(translate(function, _jit_own), signature))
        _loaded[key] = _load(*found, ctypes.CFUNCTYPE(*[ctypes.c_int64] * (1 + len(signature.args))))
    return _loaded[key][0]


def _circumstances() -> list[str]:
    return [numba.__version__, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]


@lru_cache
def _passes() -> str:
    """A hash of the sources of the compiler passes: other passes make other code."""
    sources = [
        inspect.getsource(part)
        for part in (WorldCompiler, part_compiler, interrupt, atomics, widening, readonly, plan_arrays)
    ]
    return hashlib.sha256("".join(sources).encode()).hexdigest()


def _forms(env_arrays: EnvArrays) -> list[Form]:
    """All that compiled code depends on, of each array. Parameters and tables are read-only."""
    others = len(COLUMNS) + len(EPISODE_STATS)
    fixed = {COLUMNS.index("params"), *range(others, others + len(env_arrays.tables))}
    return [(part.dtype, part.ndim, k in fixed) for k, part in enumerate(env_arrays.parts())]


def _compile(world: KernelWorld, env_arrays: EnvArrays, loop: Any, checked: bool) -> tuple[str, bytes]:
    """The name of the entry point, and object code that holds it."""
    say(f"compiling {world.name} (once on this machine; later starts read the compiled code from disk)")
    dry_run(world)
    with explain_compile_errors(world):
        jit = partial(_jit, inlined=own_codes(world), checked=checked)
        return _object_code(_entry(env_arrays, translate(loop, jit)), SIGNATURE)


def _object_code(function: Any, signature: Any) -> tuple[str, bytes]:
    interrupt.prepare()
    made = numba.cfunc(signature, error_model="numpy")(getattr(function, "py_func", function))
    module = llvm.parse_assembly(made.inspect_llvm())
    return made.native_name, _target_machine().emit_object(module)


def _jit(function: Any, inlined: Collection[Any], checked: bool) -> Any:
    """The loop's own functions are inlined: a call passes all columns, and a step of CartPole would take 325 ns instead
    of 30. So are the world's own functions, which have one or two callers. For their helpers, LLVM decides."""
    if function.__module__ in INLINED:
        return _jit_own(function, forceinline=True)
    inline = function.__code__ in inlined
    return _jit_own(function, forceinline=inline, boundscheck=checked, pipeline_class=WorldCompiler)


def _jit_own(function: Any, **options: Any) -> Any:
    """Python does not call these functions, and nothing in them allocates: without the wrappers for that, compiling
    takes less than half the time."""
    options = {"pipeline_class": PartCompiler, **options}
    return numba.njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(
        function
    )


def _entry(env_arrays: EnvArrays, run: Any) -> Any:
    """The C entry point: reads the arrays of a plan and passes them to `run`."""
    forms, at = _forms(env_arrays), len(PLAN_WORDS)
    readers = []
    for named, by_reference in ((Columns, True), (EpisodeStats, True), (env_arrays.tables_type, False)):
        own, forms = forms[: len(named._fields)], forms[len(named._fields) :]
        readers.append(plan_arrays.reader(named, own, at, by_reference))
        at += sum(1 + ndim for _, ndim, _ in own)
    columns_of, stats_of, tables_of = readers
    header_of, set_current_plan = plan_arrays.header_reader(len(HEADER)), interrupt.set_current_plan

    def entry(plan: Any, command: int, low: int, high: int, slot: int) -> int:
        set_current_plan(plan)
        columns = columns_of(plan)
        try:
            return run(columns, tables_of(plan), stats_of(plan), command, low, high, slot, header_of(plan))
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


@lru_cache
def _link_poll() -> None:
    """Give the linker the function that loops of worlds call to poll."""
    poll_current_call = compiled("poll-current-call", interrupt.poll_current_call, types.int64())
    llvm.add_symbol(interrupt.POLL_SYMBOL, ctypes.cast(poll_current_call, ctypes.c_void_p).value)


@lru_cache
def _prepare_linker() -> None:
    """Give the linker what compiled code may call: Numba's helpers and the C math library. (A name that the linker does
    not know becomes a null pointer.)"""
    interrupt.prepare()
    rtsys.initialize(registry.cpu_target.target_context)
    llvm.load_library_permanently(find_library("m") or "libm.so.6")
