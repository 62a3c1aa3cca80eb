"""The parameters of kernel worlds: numbers, or arrays of numbers of a fixed shape."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rookery.errors import OptionError, WorldError

NUMBER = (bool, int, float, np.integer, np.floating, np.bool_)


class Form(NamedTuple):
    """How a parameter is stored: its dtype, and its shape, which is () for a number."""

    dtype: str
    shape: tuple[int, ...] = ()

    def field(self, name: str) -> tuple[Any, ...]:
        """The parameter as a field of a NumPy record."""
        return (name, self.dtype, self.shape) if self.shape else (name, self.dtype)


def declared(world: str, name: str, default: Any) -> tuple[Form, Any]:
    """The form of a parameter and its default, from a number, an array, or ("f8", shape), which means zeros.

    >>> declared("Market", "fees", np.zeros(2))
    (Form(dtype='f8', shape=(2,)), [0.0, 0.0])
    >>> declared("Market", "fees", ("i8", (3,)))
    (Form(dtype='i8', shape=(3,)), [0, 0, 0])
    """
    if isinstance(default, NUMBER):
        return Form("i8" if isinstance(default, (bool, int, np.integer, np.bool_)) else "f8"), default
    array = _zeros(world, name, default) if _is_form(default) else _array(default)
    if array is None or array.dtype.kind not in "biuf":
        raise WorldError(
            f"{world}.parameters: {name!r} should be a number, an array of numbers, or ('f8', shape), got {default!r}"
        )
    if array.size == 0:
        raise WorldError(f"{world}.parameters: {name!r} is empty; its shape is {array.shape}")
    form = Form("f8" if array.dtype.kind == "f" else "i8", array.shape)
    return form, array.astype(form.dtype).tolist()


def checked(world: str, name: str, value: Any, form: Form) -> Any:
    """The value of a parameter as a number, or as a nested list of its shape; a single number fills an array."""
    if not form.shape:
        if not isinstance(value, NUMBER):
            raise OptionError(f"{world}: the parameter {name!r} should be a number, got {value!r}")
        if form.dtype == "i8" and not is_whole(value):
            raise OptionError(f"{world}: the parameter {name!r} should be an integer, got {value!r}")
        return value
    array = _array(value)
    if array is None or array.dtype.kind not in "biuf":
        raise OptionError(f"{world}: the parameter {name!r} should be numbers of the shape {form.shape}, got {value!r}")
    if array.shape not in ((), form.shape):
        raise OptionError(
            f"{world}: the parameter {name!r} should have the shape {form.shape}, or be one number, got the shape "
            f"{array.shape}"
        )
    if form.dtype == "i8" and not all(map(is_whole, array.ravel().tolist())):
        raise OptionError(f"{world}: the parameter {name!r} should hold integers, got {value!r}")
    return np.broadcast_to(array, form.shape).astype(form.dtype).tolist()


def is_whole(value: Any) -> bool:
    """Whether a number is an integer that 64 bits can hold."""
    return -(2**63) <= value < 2**63 and value == int(value)  # neither for NaN nor for infinity


def _is_form(default: Any) -> bool:
    return isinstance(default, tuple) and len(default) == 2 and isinstance(default[0], (str, type, np.dtype))


def _zeros(world: str, name: str, default: tuple[Any, Any]) -> np.ndarray:
    try:
        return np.zeros(default[1], default[0])
    except (TypeError, ValueError) as error:
        raise WorldError(f"{world}.parameters: {name!r} should be like ('f8', (7,)): {error}") from None


def _array(value: Any) -> np.ndarray | None:
    try:
        return np.asarray(value)
    except ValueError:  # a ragged list
        return None
