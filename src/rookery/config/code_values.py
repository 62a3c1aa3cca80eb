"""Classes and functions as values of a configuration: what a run records of them.

A class or function at the top of a file is recorded by its name, "file.py:Name". A lambda that is arithmetic becomes an
expression of `progress`. What is left, such as a class in a notebook, is recorded as "object:NAME": a name that only a
Python session that has the object can resolve (see user_code.py).
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from rookery.console import say
from rookery.errors import ConfigError
from rookery.learners.schedules import CONSTANTS, FUNCTIONS, NAMED, parse_schedule
from rookery.user_code import keep_for_session, name_in_file

GRID = [k / 64 for k in range(65)]  # of progress, where an expression is compared with its function
MODULES = ("math", "np", "numpy")
REMAINING = "1.0 - progress"


def recorded(key: str, value: Any, session: bool = False) -> Any:
    """A value with the names of classes and functions in it; with `session`, they may be such of this session alone."""
    if isinstance(value, (list, tuple)):
        return [recorded(key, item) for item in value]
    return _name(key, value, session) if callable(value) else value


def _name(key: str, code: Any, session: bool) -> str:
    name = name_in_file(code)
    if name is not None:
        return name
    shown = getattr(code, "__qualname__", type(code).__name__).rpartition(".")[2].replace("<lambda>", "a lambda")
    if session:
        say(
            f"`{key}`: {shown} is a class of this Python session; to load or resume the run in another one, define it "
            "there again"
        )
        return keep_for_session(code)
    around = "; or wrap the envs yourself: rookery.train(lambda: MyWrapper(MyEnv()))" if key == "wrappers" else ""
    raise ConfigError(
        f"`{key}`: {shown} has no name by which worker processes and a resumed run could find it: give a class or "
        f"function at the top of a file, or its name, 'file.py:Name'{around}"
    )


def factor_schedule(key: str, schedule: Callable[[float], float]) -> str:
    """A function of `progress` that gives a factor, as the text of a schedule."""
    _checked(key, schedule, "progress, from 0 to 1")
    return name_in_file(schedule) or _expression(schedule, "progress", 1.0) or _session_text(key, schedule, "")


def rate_schedule(key: str, rate: Callable[[float], float]) -> tuple[float, str]:
    """As Stable-Baselines3 has it, a function that gives the value itself, for the progress that remains, from 1 to 0:
    the first value (of those > 0), and the text of its schedule."""
    values = _checked(key, rate, "the remaining progress, from 1 to 0")
    first = values[0] or max(values)
    if first == 0:
        raise ConfigError(f"`{key}`: the function gives 0 throughout; it should give a number > 0")
    found = name_in_file(rate)
    if found is not None:
        return first, f"{found}({REMAINING}) / {first!r}"
    text = _expression(rate, REMAINING, first)
    return first, text or _session_text(key, rate, f"({REMAINING}) / {first!r}")


def _checked(key: str, function: Callable[[float], float], argument: str) -> list[float]:
    try:
        values = [float(function(1.0 - x if argument.startswith("the") else x)) for x in GRID]
    except Exception as error:  # noqa: BLE001 - the user's own function may raise anything
        raise ConfigError(
            f"`{key}`: the function should take {argument}, and return a number; it raised "
            f"{type(error).__name__}: {error}"
        ) from None
    if not all(math.isfinite(value) and value >= 0 for value in values):
        raise ConfigError(f"`{key}`: the function should return finite numbers >= 0 for {argument}")
    return values


def _session_text(key: str, function: Any, rest: str) -> str:
    say(
        f"`{key}`: the function is neither arithmetic of its argument nor at the top of a file, so the run records "
        "only that there was one; rookery.resume() needs it again, as the same argument"
    )
    return f"{keep_for_session(function)}{rest}"


# --- a lambda as an expression of progress ----------------------------------------------------------------------------


def _expression(function: Any, argument: str, divisor: float) -> str | None:
    """The text of a schedule with the same values, divided; None if there is none."""
    remains = argument == REMAINING
    wanted = [float(function(1.0 - x if remains else x)) / divisor for x in GRID]
    return next((text for text in _texts(function, argument, divisor) if _gives(text, wanted)), None)


def _gives(text: str, wanted: list[float]) -> bool:
    try:
        schedule = parse_schedule(text)
    except ValueError:
        return False
    return all(math.isclose(schedule(x), y, rel_tol=1e-12, abs_tol=1e-15) for x, y in zip(GRID, wanted, strict=True))


def _texts(function: Any, argument: str, divisor: float) -> Iterator[str]:
    """What the function may be."""
    yield from NAMED
    for body, names in _bodies(function):
        if len(names) == 1:
            text = ast.unparse(_Arithmetic(function, names[0], argument).visit(body))
            yield text if divisor == 1.0 else f"({text}) / {divisor!r}"


def _bodies(function: Any) -> Iterator[tuple[ast.expr, list[str]]]:
    """Expressions that may be what a function returns, each with the names of its arguments. The source of a lambda is
    that of the whole statement, which may have several."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return
    starts = [k for k in range(len(source)) if source.startswith("lambda", k)]
    texts = [source] + [source[start:end] for start in starts for end in range(len(source), start, -1)]
    for text in texts:
        try:
            tree: ast.AST = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Lambda):
                yield node.body, [argument.arg for argument in node.args.args]
            elif isinstance(node, ast.FunctionDef) and isinstance(node.body[-1], ast.Return) and node.body[-1].value:
                yield node.body[-1].value, [argument.arg for argument in node.args.args]


class _Arithmetic(ast.NodeTransformer):
    """Puts `argument` for the function's own, numbers for its other names, and cos for math.cos."""

    def __init__(self, function: Any, own: str, argument: str) -> None:
        found = inspect.getclosurevars(function)
        self._own, self._argument = own, ast.parse(argument, mode="eval").body
        self._values = {**found.globals, **found.nonlocals}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == self._own:
            return self._argument
        value = self._values.get(node.id)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        known = isinstance(node.value, ast.Name) and node.value.id in MODULES
        return ast.Name(node.attr) if known and node.attr in (*FUNCTIONS, *CONSTANTS) else node
