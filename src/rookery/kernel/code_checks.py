"""Checks that compilers insert into the code of users' worlds: indices, integer division, and others that plain Python
makes by itself. Needs Numba.

An index out of bounds would read or write the memory of another env, or end the process. So each index is replaced by
`check_index(array, index, place)`, which returns it counted from the start of the array, or ends the step of the env.
Where the size is known and the index a loop's variable, the compiler proves most checks and leaves them out.

numba-cuda has classes of its own, so both the rewriting and the machine code take those of a compiler as arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from numba import types
from numba.core import cgutils

from rookery.atomics import NUMBER, WORD
from rookery.kernel import random
from rookery.kernel.failed_checks import DIVISION, EMPTY_RANGE, INDEX, TO_INTEGER, place_of

LARGEST = 2.0**63  # integers are smaller
DIVISIONS = (operator.floordiv, operator.mod)
TO_INTEGERS = (("int", "builtins"), ("round", "builtins"), ("floor", "math"), ("ceil", "math"), ("trunc", "math"))


class Target(NamedTuple):
    """What differs between a CPU and a GPU."""

    intrinsic: Any  # the decorator
    arrays: Any  # the module with `make_array` and `load_item`
    emit_failure: Callable[..., None]  # (context, builder, place, first, second): notes it and leaves the function
    frozen: Callable[..., Any]  # (builder, number): the number, which is the same wherever it is used


class Toolkit(NamedTuple):
    """What the rewriting needs of a compiler: its classes, and its forms of the checks."""

    ir: Any  # the module with the classes of its code
    utils: Any  # the module with `find_callname`, `get_definition` and `guard`
    check_index: Any  # (array, index, place) -> index
    check_divisor: Any  # (number, divisor, place)
    check_to_integer: Any  # (number, place)
    check_range: Any  # (low, high, place)


def toolkit(ir: Any, utils: Any, target: Target) -> Toolkit:
    """What `check_pass` needs, for a compiler with these modules."""
    return Toolkit(
        ir, utils, _index_check(target), _divisor_check(target), _integer_check(target), _range_check(target)
    )


def check_pass(name: str, base: type, register: Callable[..., Any], tools: Toolkit) -> Any:
    """A compiler pass before type inference: inserts the checks into functions that are checked."""

    class CheckCode(base):
        _name = name

        def __init__(self) -> None:
            super().__init__()

        def run_pass(self, state: Any) -> bool:
            if state.func_id.func.__code__ not in state.numbers:
                return False
            _insert_checks(tools, state)
            return True

    return register(mutates_CFG=False, analysis_only=False)(CheckCode)


# --- which statements are checked -------------------------------------------------------------------------------------


def _insert_checks(tools: Toolkit, state: Any) -> None:
    """Insert checks into the function that a compiler compiles, before its types are known."""
    code = state.func_ir
    for block in code.blocks.values():
        block.body = [part for statement in block.body for part in _checked(tools, state, statement)]
    code._definitions = tools.utils.build_definitions(code.blocks)


def _checked(tools: Toolkit, state: Any, statement: Any) -> Iterator[Any]:
    """A statement with the checks that come before it."""
    ir, line = tools.ir, statement.loc.line
    value = getattr(statement, "value", None)
    if isinstance(statement, ir.SetItem):
        yield from _check_index(tools, state, statement, statement.target, statement)
    elif isinstance(statement, ir.Assign) and isinstance(value, ir.Expr):
        if value.op == "getitem":
            yield from _check_index(tools, state, statement, value.value, value)
        elif value.op in ("binop", "inplace_binop") and _divides(value):
            if not _constant(tools, state, value.rhs):  # which a constant other than 0 is
                place = place_of(state, line, DIVISION)
                yield from _call(ir, statement, tools.check_divisor, [value.lhs, value.rhs], place)
        elif value.op == "call":
            yield from _check_call(tools, state, statement, value)
    yield statement


def _check_index(tools: Toolkit, state: Any, statement: Any, array: Any, indexed: Any) -> Iterator[Any]:
    """The check of an index, which then replaces it in `indexed`. A constant stays in its place as well: elements of a
    tuple, which may be of several types, are known by it."""
    known = _constant(tools, state, indexed.index)
    if isinstance(known, str):
        return
    place = place_of(state, statement.loc.line, INDEX)
    parts = list(_call(tools.ir, statement, tools.check_index, [array, indexed.index], place))
    yield from parts
    if known is None:
        checked = parts[-1].target
        if isinstance(statement, tools.ir.SetItem):
            statement.index = checked
        else:
            statement.value = tools.ir.Expr.getitem(array, checked, indexed.loc)


def _check_call(tools: Toolkit, state: Any, statement: Any, call: Any) -> Iterator[Any]:
    line = statement.loc.line
    function = getattr(_known(tools, state, call.func), "py_func", None)
    if function is not None and function.__code__ is random.integer.__code__:
        given = {**dict(zip(("state", "low", "high"), call.args, strict=False)), **dict(call.kws)}
        place = place_of(state, line, EMPTY_RANGE)
        yield from _call(tools.ir, statement, tools.check_range, [given["low"], given["high"]], place)
        return
    name = tools.utils.guard(tools.utils.find_callname, state.func_ir, call)
    if name in TO_INTEGERS and len(call.args) == 1:
        place = place_of(state, line, TO_INTEGER)
        yield from _call(tools.ir, statement, tools.check_to_integer, list(call.args), place)
    elif name == ("divmod", "builtins") and len(call.args) == 2:
        yield from _call(tools.ir, statement, tools.check_divisor, list(call.args), place_of(state, line, DIVISION))


def _divides(value: Any) -> bool:
    return (value.fn if value.op == "binop" else value.immutable_fn) in DIVISIONS


def _call(ir: Any, statement: Any, function: Callable[..., Any], arguments: list[Any], place: int) -> Iterator[Any]:
    """Statements that call a check. The last one holds what it returns."""
    scope, at = arguments[0].scope, statement.loc
    called, where, returned = (scope.redefine(name, at) for name in ("$check", "$place", "$checked"))
    yield ir.Assign(ir.FreeVar(0, function.__name__, function, at), called, at)
    yield ir.Assign(ir.Const(place, at), where, at)
    yield ir.Assign(ir.Expr.call(called, (*arguments, where), (), at), returned, at)


def _constant(tools: Toolkit, state: Any, variable: Any) -> Any:
    """The value of a variable that is a number, a text or a tuple known before; else None."""
    known = _known(tools, state, variable)
    return known if isinstance(known, (int, float, str, tuple)) else None


def _known(tools: Toolkit, state: Any, variable: Any) -> Any:
    made = tools.utils.guard(tools.utils.get_definition, state.func_ir, variable)
    return made.value if isinstance(made, (tools.ir.Const, tools.ir.Global, tools.ir.FreeVar)) else None


# --- the machine code of the checks -----------------------------------------------------------------------------------


def _index_check(target: Target) -> Any:
    def check_index(typing_context: Any, array: Any, index: Any, place: Any) -> Any:
        """The index, with numbers in it counted from the start. What is not a number or an array of numbers stays."""
        several = isinstance(index, types.BaseTuple)
        elements = list(index.types) if several else [index]
        axes = list(_axes(array, elements))
        numbers = [axis is not None and _is_number(kind) for axis, kind in zip(axes, elements, strict=True)]
        kinds = [types.uint64 if number else kind for number, kind in zip(numbers, elements, strict=True)]
        returned = types.Tuple(kinds) if several else kinds[0]

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values = cgutils.unpack_tuple(builder, arguments[1]) if several else [arguments[1]]
            sizes = _sizes(target, context, builder, array, arguments[0])
            for k, axis in enumerate(axes):
                if axis is not None:
                    here = builder.add(arguments[2], WORD(axis))
                    values[k] = _check_element(target, context, builder, elements[k], values[k], sizes[axis], here)
            return context.make_tuple(builder, returned, values) if several else values[0]

        return returned(array, index, NUMBER), generate

    return target.intrinsic(check_index)


def _axes(array: Any, elements: list[Any]) -> Iterator[int | None]:
    """The axis that each element of an index is a number for; None for a slice, and if `array` is not an array."""
    one_axis = isinstance(array, (types.UniTuple, types.NumpyFlatType))
    dimensions = array.ndim if isinstance(array, types.Array) else int(one_axis)
    used = [not isinstance(element, (types.NoneType, types.EllipsisType)) for element in elements]
    axis = 0
    for k, element in enumerate(elements):
        if isinstance(element, types.EllipsisType):
            axis = dimensions - sum(used[k:])
        is_index = _is_number(element) or isinstance(element, types.Array)
        yield axis if is_index and axis < dimensions else None
        axis += used[k]


def _is_number(kind: Any) -> bool:
    return isinstance(kind, types.Integer)


def _sizes(target: Target, context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    if isinstance(kind, types.UniTuple):
        return [WORD(kind.count)]
    if isinstance(kind, types.NestedArray):
        return [WORD(size) for size in kind.shape]
    if isinstance(kind, types.NumpyFlatType):
        whole = WORD(1)
        array = context.make_helper(builder, kind, value).array
        for size in _sizes(target, context, builder, kind.array_type, array):
            whole = builder.mul(whole, size)
        return [whole]
    if not isinstance(kind, types.Array):
        return []
    return cgutils.unpack_tuple(builder, target.arrays.make_array(kind)(context, builder, value).shape, kind.ndim)


def _check_element(target: Target, context: Any, builder: Any, kind: Any, value: Any, size: Any, place: Any) -> Any:
    if _is_number(kind):
        return _check_number(target, context, builder, kind, value, size, place)
    array = target.arrays.make_array(kind)(context, builder, value)
    shape = cgutils.unpack_tuple(builder, array.shape, kind.ndim)
    if isinstance(kind.dtype, types.Boolean):
        _fail_if(target, context, builder, builder.icmp_signed("!=", shape[0], size), place, shape[0], size)
        return value
    with cgutils.loop_nest(builder, shape, WORD) as places:
        pointer = cgutils.get_item_pointer(context, builder, kind, array, places)
        number = target.arrays.load_item(context, builder, kind, pointer)
        _check_number(target, context, builder, kind.dtype, number, size, place)
    return value


def _check_number(target: Target, context: Any, builder: Any, kind: Any, value: Any, size: Any, place: Any) -> Any:
    """The index counted from the start of an axis, without a branch: with one for negative indices, a portfolio was a
    sixth slower on a GPU, and snake 2 % on a CPU."""
    index = target.frozen(builder, context.cast(builder, value, kind, types.int64 if kind.signed else types.uint64))
    from_start = index
    if kind.signed:
        negative = builder.icmp_signed("<", index, WORD(0))
        from_start = builder.select(negative, builder.add(index, size), index)
    outside = builder.not_(builder.icmp_unsigned("<", from_start, size))
    _fail_if(target, context, builder, outside, place, index, size)
    return from_start


def _fail_if(target: Target, context: Any, builder: Any, failed: Any, place: Any, first: Any, second: Any) -> None:
    with builder.if_then(failed, likely=False):
        target.emit_failure(context, builder, place, first, second)


def _divisor_check(target: Target) -> Any:
    def check_divisor(typing_context: Any, number: Any, divisor: Any, place: Any) -> Any:
        """An integer is not divided by 0. (Floats may be: that gives infinity or NaN.)"""
        integers = (types.Integer, types.Boolean)
        both = isinstance(number, integers) and isinstance(divisor, integers)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if both:
                by_zero = cgutils.is_null(builder, arguments[1])
                _fail_if(target, context, builder, by_zero, arguments[2], WORD(0), WORD(0))
            return context.get_dummy_value()

        return types.void(number, divisor, NUMBER), generate

    return target.intrinsic(check_divisor)


def _integer_check(target: Target) -> Any:
    def check_to_integer(typing_context: Any, number: Any, place: Any) -> Any:
        """A float that becomes an integer is finite, and not too large."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if isinstance(number, types.Float):
                wide = context.cast(builder, arguments[0], number, types.float64)
                # Two constants: the compiler for GPUs has no `fneg`.
                least, limit = (cgutils.ir.Constant(wide.type, end) for end in (-LARGEST, LARGEST))
                inside = builder.and_(builder.fcmp_ordered("<", wide, limit), builder.fcmp_ordered(">=", wide, least))
                _fail_if(target, context, builder, builder.not_(inside), arguments[1], WORD(0), WORD(0))
            return context.get_dummy_value()

        return types.void(number, NUMBER), generate

    return target.intrinsic(check_to_integer)


def _range_check(target: Target) -> Any:
    def check_range(typing_context: Any, low: Any, high: Any, place: Any) -> Any:
        """`integer(state, low, high)` has something to draw from."""
        both = _is_number(low) and _is_number(high)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if both:
                limits = [
                    context.cast(builder, *pair, types.int64) for pair in zip(arguments, (low, high), strict=False)
                ]
                _fail_if(
                    target, context, builder, builder.icmp_signed("<=", limits[1], limits[0]), arguments[2], *limits
                )
            return context.get_dummy_value()

        return types.void(low, high, NUMBER), generate

    return target.intrinsic(check_range)
