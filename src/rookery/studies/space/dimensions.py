"""What a search space is made of: dimensions, each a key of the configuration, its values, and when it counts; and
conditions on settings, such as "ppo.epochs * ppo.minibatches <= 64"."""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rookery.config.fields import closest_names
from rookery.console import join_or
from rookery.errors import ConfigError

KINDS = ("log", "uniform", "int", "log_int", "choice", "value")
EXTRA = ("step", "when")
SCALARS = (bool, int, float, str, type(None))
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


@dataclass(frozen=True)
class Dimension:
    """A key, its distribution, and the values of other keys that it counts for."""

    key: str
    distribution: BaseDistribution
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    is_json: bool = False  # choices are stored as JSON text: Optuna holds numbers, texts and booleans only

    def to_param(self, value: Any) -> Any:
        """A value of the configuration as Optuna stores it."""
        return json.dumps(value) if self.is_json else value

    def from_param(self, param: Any) -> Any:
        """The value of the configuration that Optuna has stored."""
        return json.loads(param) if self.is_json else param

    def counts(self, settings: Mapping[str, Any]) -> bool:
        """Whether this key has a value beside the settings of the keys before it."""
        return all(settings.get(key) in values for key, values in self.when.items())

    @property
    def edges(self) -> list[Any]:
        """Values that stand for all: both ends of a range, or every choice."""
        found = self.distribution
        if isinstance(found, CategoricalDistribution):
            return [self.from_param(choice) for choice in found.choices]
        assert isinstance(found, (FloatDistribution, IntDistribution))
        return [found.low, found.high]


def inside(found: FloatDistribution | IntDistribution, value: float) -> Any:
    """The nearest number that a range holds."""
    value = min(max(value, found.low), found.high)
    if found.step is not None and not found.log:
        value = min(found.low + round((value - found.low) / found.step) * found.step, found.high)
    return round(value) if isinstance(found, IntDistribution) else float(value)


def parse_dimension(key: str, spec: Any) -> Dimension:
    """From what stands in `[search.space]`: {log = [a, b]}, {uniform = [a, b]}, {int = [a, b]}, {log_int = [a, b]},
    {choice = [...]} or a plain list, {value = x}; each with `when = {"other.key" = value}` if it is conditional.

    >>> parse_dimension("ppo.clip", {"uniform": [0.1, 0.4]}).distribution
    FloatDistribution(high=0.4, log=False, low=0.1, step=None)
    """
    if isinstance(spec, list):
        spec = {"choice": spec}
    if not isinstance(spec, Mapping):
        raise _wrong(key, f"should be a table such as {{log = [1e-5, 1e-2]}} or a list of values, got {spec!r}")
    kinds = [name for name in KINDS if name in spec]
    for name in spec:
        if name not in (*KINDS, *EXTRA):
            near = closest_names(str(name), (*KINDS, *EXTRA))
            raise _wrong(key, f"has no `{name}`; " + (f"did you mean {join_or(near)}?" if near else _words()))
    if len(kinds) != 1:
        raise _wrong(key, f"needs one of {join_or(list(KINDS))}, got {join_or(kinds) if kinds else 'none of them'}")
    kind, when = kinds[0], _when(key, spec.get("when", {}))
    if kind in ("choice", "value"):
        return _choices(key, spec[kind] if kind == "choice" else [spec[kind]], when)
    return Dimension(key, _range(key, kind, spec[kind], spec.get("step")), when)


def _choices(key: str, values: Any, when: Mapping[str, tuple[Any, ...]]) -> Dimension:
    if not isinstance(values, list) or not values:
        raise _wrong(key, f"`choice` should be a list of values, got {values!r}")
    is_json = not all(isinstance(value, SCALARS) for value in values)
    shown = [json.dumps(value) if is_json else value for value in values]
    if len({json.dumps(value) for value in values}) < len(values):
        raise _wrong(key, f"`choice` names a value twice: {values!r}")
    return Dimension(key, CategoricalDistribution(shown), when, is_json)


def _range(key: str, kind: str, ends: Any, step: Any) -> BaseDistribution:
    whole = kind in ("int", "log_int")
    if not (isinstance(ends, list) and len(ends) == 2 and all(_is_number(end, whole) for end in ends)):
        raise _wrong(key, f"`{kind}` should be two {'integers' if whole else 'numbers'}, [low, high], got {ends!r}")
    low, high = ends
    if low > high:
        raise _wrong(key, f"`{kind}` = {ends!r}: the lower end comes first")
    logarithmic = kind in ("log", "log_int")
    if logarithmic and low <= 0:
        raise _wrong(key, f"`{kind}` = {ends!r}: a logarithm needs a lower end > 0")
    if step is not None and (logarithmic or not _is_number(step, whole) or step <= 0):
        raise _wrong(key, f"`step` should be a number > 0, beside `uniform` or `int`, got {step!r}")
    if whole:
        return IntDistribution(low, high, log=logarithmic, step=step or 1)
    return FloatDistribution(float(low), float(high), log=logarithmic, step=None if step is None else float(step))


def _is_number(value: Any, whole: bool) -> bool:
    kinds = (int,) if whole else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and abs(value) < float("inf")


def _when(key: str, given: Any) -> dict[str, tuple[Any, ...]]:
    if not isinstance(given, Mapping):
        raise _wrong(key, f'`when` should be a table of keys and values, such as {{"learner" = "ppo"}}, got {given!r}')
    return {
        str(other): tuple(values) if isinstance(values, list) else (values,) for other, values in flat(given).items()
    }


def flat(given: Mapping[str, Any], prefix: str = "", whole: Collection[str] = ()) -> dict[str, Any]:
    """Values by key with dots; tables whose key is one of `whole` stay as they are.

    >>> flat({"ppo": {"clip": 0.1}, "ppo.gamma": 0.9})
    {'ppo.clip': 0.1, 'ppo.gamma': 0.9}
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        key = f"{prefix}{name}"
        is_table = isinstance(value, Mapping) and key not in whole
        found |= flat(value, f"{key}.", whole) if is_table else {key: value}
    return found


def _words() -> str:
    return f"it can have {join_or([*KINDS, *EXTRA])}"


def _wrong(key: str, text: str) -> ConfigError:
    return ConfigError(f"`search.space`: `{key}` {text}")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "len": len, "abs": lambda value: abs(_number(value)),
    "sum": lambda values: _number(sum(map(_number, values))),
}  # fmt: skip


class Constraint:
    """A condition, parsed once: arithmetic and comparisons of keys and numbers. Nothing else is evaluated: texts and
    lists are compared, never repeated, joined or formatted.

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
            raise _wrong_constraint(text, str(getattr(error, "msg", error))) from None

    def holds(self, settings: Mapping[str, Any]) -> bool:
        """Whether it is true; a condition on a key that has no value in a trial is met."""
        if any(settings.get(key) is None for key in self.keys):
            return True
        try:
            return bool(_value(self._tree, settings))
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            shown = ", ".join(f"{key} = {settings[key]!r:.60}" for key in self.keys)
            raise _wrong_constraint(self.text, f"it cannot be computed with {shown}: {error}") from None


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
    raise ValueError(f"{ast.unparse(node)!r} is not a key")


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


def _wrong_constraint(text: str, why: str) -> ConfigError:
    return ConfigError(f"`search.constraints`: {text[:LONGEST]!r} cannot be used: {why}")
