"""Conditions on the settings of a trial, such as "ppo.epochs * ppo.minibatches <= 64": arithmetic and comparisons of
keys and numbers. Nothing else is evaluated: texts and lists are compared, never repeated, joined or formatted."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from rookery.errors import ConfigError

LONGEST = 500  # characters
MOST_BITS = 1024  # of an integer, about as large as a float can be
ARITHMETIC: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.USub: operator.neg,
}  # fmt: skip
OPERATORS: dict[type, Callable[..., Any]] = {
    **ARITHMETIC, ast.Not: operator.not_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.In: lambda value, values: value in values,
    ast.NotIn: lambda value, values: value not in values,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "len": len, "abs": lambda value: abs(_number(value)),
    "sum": lambda values: _number(sum(map(_number, values))),
}  # fmt: skip


class Constraint:
    """A condition, parsed once.

    >>> Constraint("ppo.epochs * 2 <= 8").holds({"ppo.epochs": 4})
    True
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            if len(text) > LONGEST:
                raise ValueError(f"it is longer than {LONGEST} characters")
            self._tree = ast.parse(text.replace(" true", " True").replace(" false", " False"), mode="eval").body
            self.keys = tuple(dict.fromkeys(_keys(self._tree)))
            if not self.keys:
                raise ValueError("it names no key of the configuration")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise _wrong(text, str(getattr(error, "msg", error))) from None

    def holds(self, settings: Mapping[str, Any]) -> bool:
        """Whether it is true; a condition on a key that has no value in a trial is met."""
        if any(settings.get(key) is None for key in self.keys):
            return True
        try:
            return bool(_value(self._tree, settings))
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            shown = ", ".join(f"{key} = {settings[key]!r:.60}" for key in self.keys)
            raise _wrong(self.text, f"it cannot be computed with {shown}: {error}") from None


def _keys(node: ast.AST) -> list[str]:
    """The keys that a condition names; raises ValueError at anything that is not allowed in one."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return []
        case ast.Name() | ast.Attribute():
            return [_name(node)]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return _keys(left) + _keys(right)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            return _keys(operand)
        case ast.BoolOp(values=values):
            return [key for value in values for key in _keys(value)]
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in OPERATORS for op in ops):
            return [key for part in (left, *others) for key in _keys(part)]
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [key for part in parts for key in _keys(part)]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return [key for part in args for key in _keys(part)]
    raise ValueError(
        f"{ast.unparse(node)!r} is not allowed: use keys, numbers, + - * / // %, comparisons, and, or, not"
    )


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    raise ValueError(f"{ast.unparse(node)!r} is no key")


def _value(node: Any, settings: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Attribute():
            return settings[_name(node)]
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(op, _value(left, settings), _value(right, settings))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, settings)
        case ast.UnaryOp(op=op, operand=operand):
            return _computed(op, _value(operand, settings))
        case ast.BoolOp(op=op, values=values):
            found = (_value(value, settings) for value in values)
            return all(found) if isinstance(op, ast.And) else any(found)
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_value(part, settings) for part in (left, *others)]
            return all(OPERATORS[type(op)](a, b) for op, (a, b) in zip(ops, pairwise(values), strict=True))
        case ast.Call(func=ast.Name(id=name), args=args):
            return FUNCTIONS[name](*(_value(part, settings) for part in args))
        case _:
            return [_value(part, settings) for part in node.elts]


def _computed(op: ast.AST, *values: Any) -> Any:
    return _number(ARITHMETIC[type(op)](*map(_number, values)))


def _number(value: Any) -> int | float:
    """The value, if it can be calculated with. A text times a number could fill the memory."""
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r:.60} is not a number")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise OverflowError(f"a number has more than {MOST_BITS} bits")
    return value


def _wrong(text: str, why: str) -> ConfigError:
    return ConfigError(f"`search.constraints`: {text[:LONGEST]!r} cannot be used: {why}")
