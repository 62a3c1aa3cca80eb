"""For compiled code: memory at an address as an array. Threads that run a plan know addresses only. Needs Numba."""

from __future__ import annotations

from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

from rookery.learners.cached_njit import cached_njit

compiled = cached_njit(nogil=True, error_model="numpy")


def _pointer_to(kind: Any) -> Any:
    """A function of an address: the pointer to numbers of this kind."""

    def pointer(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return intrinsic(pointer)


_float32, _float64, _int64, _bool = (
    _pointer_to(kind) for kind in (types.float32, types.float64, types.int64, types.boolean)
)


@compiled
def float_array(address: int, shape: Any) -> Any:
    """float32 numbers."""
    return numba.carray(_float32(address), shape)


@compiled
def double_array(address: int, shape: Any) -> Any:
    """float64 numbers."""
    return numba.carray(_float64(address), shape)


@compiled
def int_array(address: int, shape: Any) -> Any:
    """int64 numbers."""
    return numba.carray(_int64(address), shape)


@compiled
def bool_array(address: int, shape: Any) -> Any:
    """Flags of one byte."""
    return numba.carray(_bool(address), shape)
