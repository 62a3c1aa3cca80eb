"""What worlds ask of MuJoCo, for compiled code: the functions of physics_memory.py. Import it late: it needs Numba."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from rookery.atomics import NUMBER, WORD, call_c, word_at
from rookery.kernel import translate
from rookery.once import once
from rookery.worlds.mujoco import failure_guard, mujoco_library, physics_memory

INT, NOTHING = cgutils.ir.IntType(32), cgutils.ir.VoidType()
CALLS = (
    "view", "read_only_view", "copy_bytes", "set_state", "get_state", "reset_data", "forward", "advance",
    "post_constraint",
)  # fmt: skip


@once
def link() -> Any:
    """Load the library, and let compiled code call the functions of this module. Returns the words of the guard."""
    package, path, _ = mujoco_library.load()
    library = ctypes.CDLL(path)
    llvm.load_library_permanently(path)
    for name in CALLS:
        translate.REPLACED[getattr(physics_memory, name)] = globals()[name]
    if package.get_mjcb_time() is None:  # the user has no clock of their own
        _stop_clock(library)
    return failure_guard.link(library)


def _stop_clock(library: Any) -> None:
    """MuJoCo measures the parts of each step for `data.timer` if it has a clock, and its Python bindings give it one.
    To read it takes 7 to 16 % of a step."""
    ctypes.c_void_p.in_dll(library, "mjcb_time").value = None


def last_error() -> str:
    """What MuJoCo said when it failed last in compiled code."""
    return failure_guard.last_error(link())


def _array_at(name: str, readonly: bool) -> Any:
    """A function of (address, shape, dtype) that returns the array there."""

    def array_at(typing_context: Any, address: Any, shape: Any, dtype: Any) -> Any:
        kind = types.Array(dtype.dtype, len(shape), "C", readonly=readonly)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            made = arrayobj.make_array(kind)(context, builder)
            sizes = cgutils.unpack_tuple(builder, arguments[1])
            each = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(dtype.dtype)))
            strides = [each]
            for size in reversed(sizes[1:]):
                strides.insert(0, builder.mul(strides[0], size))
            start = builder.inttoptr(arguments[0], made.data.type)
            arrayobj.populate_array(made, data=start, shape=sizes, strides=strides, itemsize=each, meminfo=None)
            return made._getvalue()

        return kind(address, shape, dtype), generate

    array_at.__name__ = name
    return intrinsic(array_at)


@intrinsic
def _memcpy(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        addresses = [word_at(builder, address) for address in arguments[:2]]
        cgutils.raw_memcpy(builder, *addresses, arguments[2], itemsize=1)
        return context.get_dummy_value()

    return types.void(*[NUMBER] * 3), generate


def _state_call(name: str) -> Any:
    """`mj_getState` or `mj_setState`, neither of which can fail."""

    def call(typing_context: Any, model: Any, data: Any, state: Any, kind: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            addresses = [word_at(builder, address) for address in arguments[:3]]
            call_c(builder, name, [*addresses, builder.trunc(arguments[3], INT)], NOTHING)
            return context.get_dummy_value()

        return types.void(*[NUMBER] * 4), generate

    call.__name__ = name
    return intrinsic(call)


def _guarded(name: str) -> Any:
    """A function of a model and data, called a number of times; it returns 1 if MuJoCo failed."""

    def call(typing_context: Any, model: Any, data: Any, times: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = cgutils.ir.FunctionType(NOTHING, [WORD.as_pointer()] * 2)
            function = builder.ptrtoint(cgutils.get_or_insert_function(builder.module, kind, name), WORD)
            return call_c(builder, failure_guard.GUARDED, [function, *arguments])

        return NUMBER(NUMBER, NUMBER, NUMBER), generate

    call.__name__ = name
    return intrinsic(call)


view, read_only_view = _array_at("view", readonly=False), _array_at("read_only_view", readonly=True)
_set_state, _get_state = _state_call("mj_setState"), _state_call("mj_getState")
_step, _forward, _reset = _guarded("mj_step"), _guarded("mj_forward"), _guarded("mj_resetData")
_post_constraint = _guarded("mj_rnePostConstraint")
_jit = numba.njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


@_jit
def copy_bytes(target: int, source: int, size: int) -> None:
    _memcpy(target, source, size)


@_jit
def set_state(model: int, data: int, state: int, size: int, kind: int) -> None:
    _set_state(model, data, state, kind)


@_jit
def get_state(model: int, data: int, state: int, size: int, kind: int) -> None:
    _get_state(model, data, state, kind)


@_jit
def reset_data(model: int, data: int) -> None:
    _reset(model, data, 1)


@_jit
def forward(model: int, data: int) -> int:
    return _forward(model, data, 1)


@_jit
def advance(model: int, data: int, steps: int) -> int:
    return _step(model, data, steps)


@_jit
def post_constraint(model: int, data: int) -> int:
    return _post_constraint(model, data, 1)
