"""Compiles the bodies of cuda_bodies.py to GPU kernels, one thread per env. Import it late: it needs numba-cuda.

A kernel receives addresses, and makes arrays of its own env from them: a body sees columns of a single env. The state,
observations, rewards and infos are copied to the thread's local memory (mostly registers) at the start, and written
back at the end: the compiler cannot know that two columns never overlap, and would read everything again after every
write.

Where a world is checked, a thread notes a failed check in three words of shared memory, and leaves its functions with
an error status, as after an exception. The kernel reads both, and ends the env. Launches reserve NOTED_BYTES of memory.
"""

from __future__ import annotations

import inspect
import math
import threading
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

if not hasattr(np, "row_stack"):  # removed in NumPy 2.5; numba-cuda 0.30 still uses it
    np.row_stack = np.vstack

from numba import cuda, types
from numba.core import cgutils
from numba.cuda import compiler, nvvmutils
from numba.cuda.core import ir, ir_utils
from numba.cuda.core.compiler_machinery import FunctionPass, register_pass
from numba.cuda.core.untyped_passes import InlineClosureLikes
from numba.cuda.extending import intrinsic
from numba.cuda.np import arrayobj
from numba.cuda.np.numpy_support import carray

from rookery.atomics import WORD
from rookery.kernel import native
from rookery.kernel.code_checks import Target, check_pass, toolkit
from rookery.kernel.cuda_bodies import (
    ADDRESSED,
    FLAT,
    HARD_BLOCK,
    SHARED,
    WORD_BYTES,
    Bodies,
    LaunchNotes,
    build_bodies,
    column_forms,
)
from rookery.kernel.env_loop import COLUMNS, FAILED_CHECK, OVER, Columns
from rookery.kernel.translate import defined, translate
from rookery.kernel.world import KernelWorld, own_codes

# Numba says at launches that a small batch leaves a part of the GPU idle: how many envs there are is the user's choice.
warnings.filterwarnings("ignore", r".*Grid size \d+ will likely result in GPU under-utilization")

INLINED = tuple(
    f"rookery.kernel.{name}" for name in ("cuda_bodies", "env_loop", "observation_form", "world", "world_calls")
)
PARAMS = ("params", "next_params")  # one record for all envs, or one for each
SHARED_MEMORY = 3  # an address space
NOTES = "rookery_failed_checks"
FAILED = cgutils.ir.IntType(32)(1)  # the status of a function that raised
WORDS = 3  # of a failure
FEW = 64  # columns with at most so many numbers per env are copied to local memory
_compiling = threading.Lock()


def dispatchers(world: KernelWorld, checked: bool = False) -> Bodies:
    """The bodies as functions that numba-cuda can compile to kernels."""
    # For the CPU first: its errors name the line, and it refuses writes to tables.
    native.entry_point(world.on_cpu, checked)
    bodies, jit = build_bodies(world, _reserve), partial(_jit, inlined=own_codes(world))
    limit = {"max_registers": world.max_registers} if world.max_registers else {}
    return Bodies(
        **{
            name: cuda.jit(**limit)(_kernel(world, translate(body, jit), name, checked))
            for name, body in bodies._asdict().items()
        }
    )


def machine_code(
    dispatcher: Any, arguments: tuple[Any, ...], numbers: Mapping[Any, int] = MappingProxyType({})
) -> tuple[str, bytes]:
    """The entry point's name and the machine code of a kernel for arguments of these types, on the current GPU.
    `numbers` are those of functions that are checked."""
    kinds = tuple(dispatcher.typeof_pyval(_as_numba(argument)) for argument in arguments)
    with _checking(numbers):
        made = dispatcher.compile(kinds)
    cubin = made._codelibrary.get_cubin()  # numba-cuda has no public name for it
    return made.entry_name, bytes(getattr(cubin, "code", cubin))


def _as_numba(argument: Any) -> Any:
    """An argument with numba-cuda's arrays in place of torch's tensors."""
    if isinstance(argument, tuple) and hasattr(argument, "_fields"):
        return type(argument)(*map(cuda.as_cuda_array, argument))
    return argument


def _reserve(notes: Any, kind: int) -> int:
    return cuda.atomic.add(notes.count, kind, 1)


@cuda.jit(device=True, forceinline=True)
def _hard_env(count: Any, hard: Any) -> int:
    """The hard env that this thread steps, or -1. Kinds follow one another, and no two of them share a block."""
    block = cuda.blockIdx.x
    for kind in range(len(count)):
        blocks = (count[kind] + HARD_BLOCK - 1) // HARD_BLOCK
        if block < blocks:
            place = block * HARD_BLOCK + cuda.threadIdx.x
            return hard[kind, place] if place < count[kind] else -1
        block -= blocks
    return -1


def _jit(function: Any, inlined: Collection[Any]) -> Any:
    inline = function.__module__ in INLINED or function.__code__ in inlined or hasattr(function, "always_inlined")
    if hasattr(function, "never_inlined"):
        return cuda.jit(device=True)(_called(function))
    return cuda.jit(device=True, forceinline=inline)(function)


def _called(function: Any) -> Any:
    """A function that calls this one, and is itself never inlined."""
    names = ", ".join(inspect.signature(function).parameters)
    inner = cuda.jit(device=True, forceinline=True)(function)
    lines = ["    stay_apart()", f"    return inner({names})"]
    return defined(f"called({names})", lines, stay_apart=_stay_apart, inner=inner, __name__=function.__module__)


@intrinsic
def _stay_apart(typing_context: Any) -> Any:
    """In the function that calls it: never inline that function."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


def _kernel(world: KernelWorld, device: Any, name: str, checked: bool) -> Any:
    """The kernel that makes arrays from addresses and calls the body `device`. If that raises, it ends the env."""
    forms = column_forms(world)
    scope: dict[str, Any] = {
        "cuda": cuda, "carray": carray, "pointer": pointer, "device": device, "Columns": Columns,
        "LaunchNotes": LaunchNotes,
        "hard_env": _hard_env, "int32": np.int32, "word": np.int64,
        "call_checked": _call_checked, "noted_word": _noted_word, "sized": _sized(world.table_sizes),
        **{f"{part}_type": dtype for part, (_, dtype) in forms.items()},
    }  # fmt: skip
    size = {part: math.prod(shape) for part, (shape, _) in forms.items()}
    each = {part: size[part] * dtype.itemsize for part, (_, dtype) in forms.items()}
    words = each["states"] // WORD_BYTES
    # A record of observations may hold many numbers: its words are counted, not the record.
    copied = [part for part in ("observations", "rewards") if max(size[part], each[part] // WORD_BYTES) <= FEW]
    info_words, rest = divmod(each["infos"], WORD_BYTES)
    local_infos = bool(world.info) and not rest and info_words <= FEW
    own = ["states", "scratch", *copied, *(() if world.info else ("infos", "final_infos")), *["infos"] * local_infos]
    at = {part: f"at[{k}]" for k, part in enumerate(ADDRESSED)}
    kinds = world.hard_kinds
    lines = [
        "def kernel(at, tables, n, per_env, mode, strict):",
        f"    any_fault = carray(pointer({at['any_fault']}), (1,), int32)",
        f"    count = carray(pointer({at['count']}), ({kinds},), int32)",
        f"    hard = carray(pointer({at['hard']}), ({kinds}, n), int32)",
        f"    i = {'hard_env(count, hard)' if name == 'step_hard' else 'cuda.grid(1)'}",
        "    if i < 0 or i >= n:",
        "        return",
        "    tables = sized(tables)",
    ]
    for part, (shape, _) in forms.items():
        source = FLAT.get(part, part)
        if part in own:
            scope[f"{part}_memory"] = _memory(each[part])
            lines.append(f"    {part}_at = {part}_memory()")
        elif source in own:
            lines.append(f"    {part}_at = {source}_at")
        elif part == "memory" and world.memory:  # (bytes, envs): neighbouring threads read neighbouring bytes
            lines.append(f"    {part} = carray(pointer({at[part]}), ({world.memory}, n), {part}_type)[:, i : i + 1].T")
            continue
        else:
            far = "0" if part in SHARED else f"i * per_env * {each[part]}" if part in PARAMS else f"i * {each[part]}"
            lines.append(f"    {part}_at = pointer({at[source]} + {far})")
        lines.append(f"    {part} = carray({part}_at, {shape}, {part}_type)")
    lines.append(f"    here = carray(states_at, ({words},), word)")
    lines.append(f"    there = carray(pointer({at['states']}), ({words}, n), word)")
    copies = [("here[k]", "there[k, i]", words)]
    for part in copied:
        lines.append(f"    {part}_here = carray({part}_at, ({size[part]},), {part}_type)")
        lines.append(f"    {part}_there = carray(pointer({at[part]} + i * {each[part]}), ({size[part]},), {part}_type)")
        copies.append((f"{part}_here[k]", f"{part}_there[k]", size[part]))
    lines += [f"    for k in range({many}):\n        {mine} = {its}" for mine, its, many in copies]
    if local_infos:  # a step writes all infos of its env; a reset, those of some envs
        lines.append(f"    infos_here = carray(infos_at, ({info_words},), word)")
        lines.append(f"    infos_there = carray(pointer({at['infos']} + i * {each['infos']}), ({info_words},), word)")
        first = "0" if name.startswith("step") else "infos_there[k]"
        lines.append(f"    for k in range({info_words}):\n        infos_here[k] = {first}")
        copies.append(("infos_here[k]", "infos_there[k]", info_words))
    given = f"Columns({', '.join(COLUMNS)}), tables, 0, 0, mode, strict, LaunchNotes(any_fault, count, hard, i)"
    lines += _ending_failed(given) if checked else [f"    device({given})"]
    lines += [f"    for k in range({many}):\n        {its} = {mine}" for mine, its, many in copies]
    exec("\n".join(lines), scope)  # noqa: S102 - made of names from this package
    return scope["kernel"]


def _ending_failed(given: str) -> list[str]:
    """Lines that call the body, and end the env if that raises."""
    return [
        f"    if call_checked(device, {given}):",
        *(f"        failures[0, {word}] = noted_word({word})" for word in range(WORDS)),
        f"        faults[0] = {FAILED_CHECK}",
        f"        states[0].stage = {OVER}",
        "        any_fault[0] = 1",
    ]


@intrinsic
def pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


def _sized(sizes: Mapping[str, tuple[int, ...]]) -> Any:
    """A function that returns tables whose sizes, except the first, are constants: the compiler then knows that loops
    over them stay inside."""

    def sized(typing_context: Any, tables: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            arrays = cgutils.unpack_tuple(builder, arguments[0])
            for k, (name, kind) in enumerate(zip(tables.fields, tables.types, strict=True)):
                if sizes.get(name):
                    array = arrayobj.make_array(kind)(context, builder, arrays[k])
                    rest = [context.get_constant(types.intp, size) for size in sizes[name]]
                    array.shape = cgutils.pack_array(builder, [builder.extract_value(array.shape, 0), *rest])
                    arrays[k] = array._getvalue()
            return context.make_tuple(builder, tables, arrays)

        return tables(tables), generate

    return intrinsic(sized)


def _memory(size: int) -> Any:
    """A function that returns `size` bytes of local memory. (Numba's local arrays would be filled with zeros.)"""

    def memory(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            with builder.goto_entry_block():
                place = builder.alloca(cgutils.ir.ArrayType(cgutils.int8_t, size))
                place.align = 16
            return builder.bitcast(place, cgutils.voidptr_t)

        return types.voidptr(), generate

    return intrinsic(memory)


# --- failed checks ----------------------------------------------------------------------------------------------------


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


def _emit_failure(context: Any, builder: Any, place: Any, first: Any, second: Any) -> None:
    """Note a failure and leave the function."""
    for word, value in enumerate((place, first, second)):
        builder.store(value, _noted(builder, word))
    builder.ret(FAILED)


def _same(builder: Any, value: Any) -> Any:
    """The value itself: this compiler has no `freeze`."""
    return value


CheckGpuCode = check_pass(
    "rookery_check_gpu_code", FunctionPass, register_pass,
    toolkit(ir, ir_utils, Target(intrinsic, arrayobj, _emit_failure, _same)),
)  # fmt: skip


@contextmanager
def _checking(numbers: Mapping[Any, int]) -> Iterator[None]:
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
def _call_checked(
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
def _noted_word(typing_context: Any, word: Any) -> Any:
    """A word of what this thread has noted: 0 the place, 1 and 2 its numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _noted(builder, 0)
        return builder.load(builder.gep(first, [arguments[0]]))

    return types.int64(types.int64), generate
