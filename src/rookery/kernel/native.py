"""Kernel worlds as machine code for this CPU. The only module that needs Numba at work; import it late.

Compiled code is reached through one C function that is given a plan (see arena.py): 0.6 us a call, where Numba's own
dispatcher takes 4 for as many arrays. The object code is kept on disk (see cache.py), so a second start compiles
nothing; and being plain object code, it is loaded without unpickling anything.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Collection
from ctypes.util import find_library
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba import types
from numba.core import cgutils, registry
from numba.core.runtime import rtsys
from numba.extending import intrinsic

from rookery.console import say
from rookery.kernel import atomics, code_cache, interrupt, pipeline, readonly, widening
from rookery.kernel.batch_loop import build_loop
from rookery.kernel.diagnosis import explained, rehearse
from rookery.kernel.env_arrays import BOOKS, HEADER, PLAN_WORDS, Books, EnvArrays
from rookery.kernel.env_loop import COLUMNS, FAULT, STOPPED, Columns
from rookery.kernel.translate import translate
from rookery.kernel.world import KernelWorld, own_codes

INLINED = tuple(f"rookery.kernel.{name}" for name in ("batch_loop", "env_loop", "world", "world_calls"))
SIGNATURE = types.int64(types.CPointer(types.int64), types.int64, types.int64, types.int64, types.int64)
PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * 4)

# What is called from outside. An exception ends here: it would leave the batch half stepped without a word.
_ENTRY = """
def entry(address, what, low, high, slot):
    attend(address)
    plan = carray(address, ({},))
    header = ({})
    columns, books, tables = Columns({}), Books({}), Tables({})
    try:
        return work(columns, tables, books, what, low, high, slot, header)
    except Exception:
        columns.faults[low] = STOPPED
        return FAULT
"""

_loaded: dict[str, tuple[Any, Any]] = {}  # fingerprint -> (function, what keeps its code in memory)


def entry_point(world: KernelWorld, checked: bool = False) -> Any:
    """The C function `f(plan_address, what, low, high, slot)` for envs [low, high) of the arena behind a plan. It
    releases the GIL, and returns the union of what came of the envs' steps. `checked`: an index out of bounds in the
    world's code ends the call."""
    arena = EnvArrays(world, 1)
    loop = build_loop(world)
    names = [*COLUMNS, *BOOKS, *arena.tables]
    easy = code_cache.fingerprint(world.easy, "")  # not compiled here, but rehearsed whenever it is another one
    key = code_cache.fingerprint(loop, [names, easy, _forms(arena), _ENTRY, checked, _passes(), *_circumstances()])
    if key not in _loaded:
        _watch_loops()
        found = code_cache.find(world.name, key, lambda: _compile(world, arena, loop, checked))
        _loaded[key] = _load(*found, PROTOTYPE)
    return _loaded[key][0]


def compiled(name: str, function: Any, signature: Any) -> Any:
    """A function of 64-bit numbers as a C function that releases the GIL. It is kept on disk as worlds are."""
    key = code_cache.fingerprint(function, [str(signature), *_circumstances()])
    if key not in _loaded:
        found = code_cache.find(name, key, lambda: _object_code(translate(function, _jit_own), signature))
        _loaded[key] = _load(*found, ctypes.CFUNCTYPE(*[ctypes.c_int64] * (1 + len(signature.args))))
    return _loaded[key][0]


def _circumstances() -> list[str]:
    return [numba.__version__, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]


@lru_cache
def _passes() -> str:
    """A hash of what is done to a world's functions on the way: other passes make other code."""
    files = [Path(str(part.__file__)) for part in (pipeline, interrupt, atomics, widening, readonly)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _forms(arena: EnvArrays) -> list[tuple[Any, int]]:
    """All that compiled code has to know of an arena: the type and number of dimensions of each array."""
    return [(part.dtype, part.ndim) for part in arena.parts()]


def _compile(world: KernelWorld, arena: EnvArrays, loop: Any, checked: bool) -> tuple[str, bytes]:
    """The name of the entry point, and object code that holds it."""
    say(f"compiling {world.name}: once for this machine, after which it is found on disk")
    rehearse(world)
    with explained(world):
        jit = partial(_jit, inlined=own_codes(world), checked=checked)
        return _object_code(_entry(arena, translate(loop, jit)), SIGNATURE)


def _object_code(function: Any, signature: Any) -> tuple[str, bytes]:
    interrupt.prepare()
    llvm.initialize_native_asmparser()  # there may be instructions that LLVM has no name for (see team.py)
    made = numba.cfunc(signature, error_model="numpy")(getattr(function, "py_func", function))
    module = llvm.parse_assembly(made.inspect_llvm())
    return made.native_name, _target_machine().emit_object(module)


def _jit(function: Any, inlined: Collection[Any], checked: bool) -> Any:
    """The loop's own functions are inlined: a call hands over all columns, and a step of CartPole would take 325 ns
    instead of 30. So are the world's own, called from one place or two; of what they call, the compiler knows best."""
    if function.__module__ in INLINED:
        return _jit_own(function, forceinline=True)
    inline = function.__code__ in inlined
    return _jit_own(function, forceinline=inline, boundscheck=checked, pipeline_class=pipeline.WorldCompiler)


def _jit_own(function: Any, **options: Any) -> Any:
    """No Python calls these functions, and nothing in them allocates: leaving out what that would need more than halves
    the time to compile."""
    return numba.njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(
        function
    )


def _entry(arena: EnvArrays, work: Any) -> Any:
    """A function that makes arrays of a plan's addresses and hands them to `work`."""
    scope: dict[str, Any] = {
        "carray": numba.carray, "pointer": _pointer, "work": work, "Columns": Columns, "Books": Books,
        "Tables": arena.tables_type, "STOPPED": STOPPED, "FAULT": FAULT, "attend": interrupt.attend,
        "read_only": readonly.read_only,
    }  # fmt: skip
    columns, books = len(COLUMNS), len(COLUMNS) + len(BOOKS)
    arrays, at = [], len(PLAN_WORDS)
    for k, (dtype, ndim) in enumerate(_forms(arena)):
        scope[f"dtype{k}"] = dtype
        shape = "".join(f"plan[{at + 1 + d}], " for d in range(ndim))
        array = f"carray(pointer(plan[{at}]), ({shape}), dtype{k})"
        arrays.append(f"read_only({array})" if k >= books or k == COLUMNS.index("params") else array)
        at += 1 + ndim
    header = ", ".join(f"plan[{k}]" for k in range(len(HEADER)))
    parts = (", ".join(some) for some in (arrays[:columns], arrays[columns:books], arrays[books:]))
    exec(_ENTRY.format(at, header, *parts), scope)  # noqa: S102 - made of numbers alone
    return scope["entry"]


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@intrinsic
def call_entry(typing_context: Any, entry: Any, plan: Any, what: Any, low: Any, high: Any, slot: Any) -> Any:
    """For other compiled code: call the entry point at an address, with the plan at another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = cgutils.ir.IntType(64)
        kind = cgutils.ir.FunctionType(number, [number.as_pointer(), *[number] * 4])
        entry, plan, *rest = arguments
        function = builder.inttoptr(entry, kind.as_pointer())
        return builder.call(function, [builder.inttoptr(plan, number.as_pointer()), *rest])

    return types.int64(*[types.int64] * 6), generate


def _target_machine() -> Any:
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, reloc="default",
        codemodel="jitdefault", jit=True,
    )  # fmt: skip


def _load(name: str, code: bytes, prototype: Any) -> tuple[Any, Any]:
    """Bring object code into memory; returns its entry point, and the engine that must outlive it."""
    _prepare_linker()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return prototype(engine.get_function_address(name)), engine


@lru_cache
def _watch_loops() -> None:
    """Make known what the loops of worlds ask."""
    is_over = compiled("is-over", interrupt.is_over, types.int64())
    llvm.add_symbol(interrupt.IS_OVER, ctypes.cast(is_over, ctypes.c_void_p).value)


@lru_cache
def _prepare_linker() -> None:
    """Make known what compiled code may call: Numba's own helpers, and the C library's mathematics. (A name that the
    linker does not know becomes a null pointer.)"""
    interrupt.prepare()
    rtsys.initialize(registry.cpu_target.target_context)
    llvm.load_library_permanently(find_library("m") or "libm.so.6")
