"""The arrays of a plan (see env_arrays.py), as compiled code sees them.

The functions around a world pass all columns to each other by reference. As a tuple of arrays these would be more than
200 arguments of every call: compiling CartPole took 8.3 s of processor time, and takes 5.8 s by reference. Steps are as
fast: once everything is inlined, the compiler keeps in registers what it needs of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from rookery.kernel.native_compiler import frozen

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


@lower_getattr_generic(ByReference)  # type: ignore[untyped-decorator]
def _load_field(context: Any, builder: Any, kind: ByReference, pointer: Any, name: str) -> Any:
    at = kind.named.fields.index(name)
    value = builder.load(cgutils.gep_inbounds(builder, pointer, 0, at))
    return impl_ret_borrowed(context, builder, kind.named[at], value)


def reader(named: Any, forms: Sequence[Form], at: int, by_reference: bool) -> Any:
    """A function of a plan's address, for compiled code: the arrays from word `at` of the plan on, as a named tuple."""
    kinds = [types.Array(from_dtype(dtype), ndim, "C") for dtype, ndim, _, _ in forms]
    kinds = [frozen(kind) if form[2] else kind for kind, form in zip(kinds, forms, strict=True)]
    made = types.NamedTuple(kinds, named)

    @intrinsic  # type: ignore[untyped-decorator]
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


def header_reader(count: int) -> Any:
    """A function of a plan's address, for compiled code: the plan's first `count` numbers."""

    @intrinsic  # type: ignore[untyped-decorator]
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
