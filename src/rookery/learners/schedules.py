"""Schedules: how an option such as the learning rate changes over a run.

A schedule is a factor of the option's value, as a function of `progress`, which goes from 0 at the start of a run to 1
at its end. It is a name ("constant", "linear"), an expression, such as "0.5 * (1 + cos(pi * progress))", or a function
in a file, "my_file.py:my_schedule". A function of Stable-Baselines3's form gives the value itself, for the remaining
progress: "my_file.py:my_rate(1.0 - progress) / 0.0003", where 0.0003 is its first value. Expressions are computed by
this module alone: a configuration may come from anybody, and reading it must run no code.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field

from rookery.gate import Reaches
from rookery.user_code import OBJECT, find_in_file

Schedule = Callable[[float], float]

BETAS = 0.9, 0.999  # of Adam, which follow no schedule
NAMED = {"constant": "1.0", "linear": "1.0 - progress"}
LONGEST = 200  # characters of an expression
FUNCTION = re.compile(r"(.*\.py:\w+|object:[\w-]+)(?:\(1\.0 - progress\) / ([0-9.e+-]+))?")
CONSTANTS = {"pi": math.pi, "e": math.e}
FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min, "max": max, "abs": abs, "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "cos": math.cos,
    "sin": math.sin, "floor": lambda x: float(math.floor(x)),
}  # fmt: skip
OPERATORS: dict[type, Callable[..., float | bool]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: math.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


@lru_cache(maxsize=64)
def parse_schedule(text: str) -> Schedule:
    """The function behind a schedule's name or expression. Only this imports a function in a file.

    Raises:
        ValueError: It is none, with the reason.

    >>> cosine = parse_schedule("0.5 * (1 + cos(pi * progress))")
    >>> cosine(0.0), cosine(1.0)
    (1.0, 0.0)
    >>> parse_schedule("1 if progress < 0.5 else 0.1")(0.75)
    0.1
    """
    if is_function(text):
        return _find(text)
    if len(text) > LONGEST:
        raise ValueError(f"an expression of at most {LONGEST} characters, got {len(text)}")
    try:
        body = ast.parse(NAMED.get(text, text), mode="eval").body
        _check(body)
        schedule = lambda progress: float(_compute(body, min(max(progress, 0.0), 1.0)))  # noqa: E731
        values = [schedule(k / 10) for k in range(11)]
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f'"constant", "linear" or an expression of `progress`, got {text!r}') from None
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(f'"constant", "linear" or an expression of `progress`: {text!r} fails: {error}') from None
    if not all(math.isfinite(value) and value >= 0 for value in values):
        raise ValueError(f"a factor that is finite and not negative from progress 0 to 1: {text!r} is not")
    return schedule


def _find(text: str) -> Schedule:
    """A function that has a name."""
    named = FUNCTION.fullmatch(text)
    if named is None:
        raise ValueError(f"my_file.py:my_schedule, got {text!r}")
    function, first = find_in_file(named[1], "a schedule"), named[2]
    return function if first is None else lambda progress: float(function(1.0 - progress)) / float(first)


def _check(tree: ast.expr) -> None:
    """Refuse everything but arithmetic."""
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
                continue
            case ast.Name(id=name) if name in (FUNCTIONS if id(node) in functions else ("progress", *CONSTANTS)):
                continue
            case ast.Call(func=ast.Name(), keywords=[]) | ast.Compare(ops=[_]) | ast.IfExp() | ast.Load():
                continue
            case ast.BinOp() | ast.UnaryOp():
                continue
            case _ if type(node) in OPERATORS:
                continue
        what = ast.unparse(node) or type(node).__name__
        raise ValueError(f"{what!r} is not arithmetic of progress, numbers, pi, e and {', '.join(sorted(FUNCTIONS))}")


def _compute(node: ast.expr, progress: float) -> float:
    match node:
        case ast.Constant(value=value):
            return float(value)  # type: ignore[arg-type]
        case ast.Name(id=name):
            return progress if name == "progress" else CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand):
            return OPERATORS[type(op)](_compute(operand, progress))
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return OPERATORS[type(op)](_compute(left, progress), _compute(right, progress))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _compute(body if _compute(test, progress) else orelse, progress)
        case ast.Call(func=ast.Name(id=name), args=args):
            return FUNCTIONS[name](*(_compute(argument, progress) for argument in args))
    raise AssertionError(f"{node} was checked")


def is_function(text: str) -> bool:
    """Whether a schedule is a function in a file, or of a Python session."""
    return ".py:" in text or text.startswith(OBJECT)


def scheduled(value: float, schedule: str, progress: float) -> float:
    """The value of an option at this point of a run.

    >>> scheduled(0.2, "linear", 0.75), scheduled(0.2, "constant", 0.75)
    (0.05, 0.2)
    """
    return value * parse_schedule(schedule)(progress)


def _valid(text: str) -> str:
    if not is_function(text):
        parse_schedule(text)
    return text


ScheduleText = Annotated[
    str,
    Reaches("code"),
    AfterValidator(_valid),
    Field(
        json_schema_extra={
            "words": '"constant", "linear", an expression of `progress` (0 to 1) such as "(1 - progress) ** 2", or '
            "my_file.py:my_schedule"
        }
    ),
]
