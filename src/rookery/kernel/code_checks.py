"""Compiler passes that check the code of users' worlds: indices, integer division and others that plain Python checks.

An index out of bounds would read or write the memory of another env, or end the process. So each index is replaced by
`check_index(array, index, place)`, which returns it counted from the start of the array, or ends the step of the env.
Where the size is known and the index a loop's variable, the compiler proves most checks and leaves them out.

This module is free of Numba: numba-cuda has classes of its own, so the rewriting takes them as arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rookery.kernel import random
from rookery.kernel.failed_checks import DIVISION, EMPTY_RANGE, INDEX, TO_INTEGER, place_of

DIVISIONS = (operator.floordiv, operator.mod)
TO_INTEGERS = (("int", "builtins"), ("round", "builtins"), ("floor", "math"), ("ceil", "math"), ("trunc", "math"))


class Toolkit(NamedTuple):
    """What the rewriting needs of a compiler: its classes, and its forms of the checks."""

    ir: Any  # the module with the classes of its code
    utils: Any  # the module with `find_callname`, `get_definition` and `guard`
    check_index: Any  # (array, index, place) -> index
    check_divisor: Any  # (number, divisor, place)
    check_to_integer: Any  # (number, place)
    check_range: Any  # (low, high, place)


def insert_checks(tools: Toolkit, state: Any) -> None:
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
