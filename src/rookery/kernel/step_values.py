"""How many values a world's `step` returns: with or without `truncated`.

The code around `step` unpacks what it returns, so it must know the number before anything is compiled. It is read from
the return statements. Where these do not show it, a step in plain Python does.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from rookery.errors import WorldError
from rookery.kernel.plain_values import PlainRecord, PlainRows
from rookery.kernel.translate import closed_over, line_of
from rookery.kernel.world import ARGUMENTS, KernelWorld, adapt

SINGLE = (ast.Constant, ast.Compare, ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Subscript)  # expressions of one number
TRIAL_SECONDS = 5.0
WRITES = {"reset": "state", "observe": "out", "action_mask": "out"}  # where functions write that return nothing
NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def truncates(world: KernelWorld) -> bool:
    """Whether the world's `step` also returns `truncated`. A WorldError if its return statements differ in that."""
    least = 2 if world.num_agents == 1 else 1
    for role, extra in (("step", 0), ("easy", 1)):
        function = inspect.unwrap(getattr(world, role, None) or _nothing)
        found = returned_values(function)
        _refuse_mixed(f"{world.name}.{role}", function, found)
        known = [count for count, _ in found if count is not None]
        if role == "step":
            values = known[0] if known else _tried(world, least)
        elif known and known[0] != values + extra:
            raise WorldError(
                f"{world.name}.easy returns {known[0]} values, and step {values}: easy should return the kind of the "
                f"step, then what step returns{line_of(function, found[0][1])}"
            )
    return values == least + 1


def _nothing() -> None:
    """In place of a function that a world does not have."""


def _refuse_mixed(name: str, function: FunctionType, found: list[tuple[int | None, int]]) -> None:
    known = [(count, line) for count, line in found if count is not None]
    for count, line in known:
        if count != known[0][0]:
            raise WorldError(
                f"{name} returns {known[0][0]} values in line {known[0][1]} and {count} in line {line}: return "
                f"`truncated` everywhere or nowhere{line_of(function, line)}"
            )


def refuse_lost_values(world: KernelWorld) -> None:
    """Refuse a value that nothing reads: an observation that `observe` returns as in Gymnasium, or gives the name `out`
    instead of writing it there. The agent would see zeros."""
    for role, written in WRITES.items():
        function = inspect.unwrap(getattr(world, role, None) or _nothing)
        for count, line in returned_values(function):
            if count:
                raise WorldError(
                    f"{world.name}.{role} returns a value, which nothing reads: write it into `{written}` instead"
                    f"{line_of(function, line)}"
                )
        rebound = _rebound(function, written) if written == "out" else None
        if rebound is not None:
            raise WorldError(
                f"{world.name}.{role} gives the name `{written}` to another value, which nothing reads: write each "
                f"number into it instead, as in `{written}[0] = state.x`{line_of(function, rebound)}"
            )


def _rebound(function: FunctionType, name: str) -> int | None:
    """The first line in which a function gives the name of an argument to another value."""
    tree, first = _tree(function.__code__)
    nodes = [] if tree is None else list(_inside(tree))
    parts = [node for node in nodes if isinstance(node, ast.Assign) and _reads(node.value, name)]  # out = out[1:]
    kept = [target for node in parts for target in node.targets]
    kept += [node.target for node in nodes if isinstance(node, ast.AugAssign)]  # as usual: in place, or refused
    stored = (node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return next((node.lineno + first - 1 for node in stored if node.id == name and node not in kept), None)


def _reads(expression: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(expression))


def returned_values(function: FunctionType) -> list[tuple[int | None, int]]:
    """For each return statement: how many values it returns (None if that cannot be read from it), and its line.

    >>> from rookery.worlds.classic import CartPole
    >>> [count for count, _ in returned_values(CartPole.step)]
    [2, 2]
    """
    return _returned_values(function, frozenset())


def _returned_values(function: FunctionType, callers: frozenset[Any]) -> list[tuple[int | None, int]]:
    tree, first = _tree(function.__code__)
    if tree is None or function.__code__ in callers:
        return []
    reader = _Reader(function, tree, callers | {function.__code__})
    returns = (node for node in _inside(tree) if isinstance(node, ast.Return) and node.value is not None)
    return [(reader.count(node.value), node.lineno + first - 1) for node in returns if node.value is not None]


@lru_cache(maxsize=256)
def _tree(code: Any) -> tuple[ast.FunctionDef | None, int]:
    """The syntax tree of a function, and the number of its first line in its file."""
    try:
        lines, first = inspect.getsourcelines(code)
        node = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, SyntaxError, IndexError, TypeError):
        return None, 1  # no source, or a part of a line, as for a lambda
    return (node, first) if isinstance(node, ast.FunctionDef) else (None, first)


class _Reader:
    """Counts the values of expressions in one function."""

    def __init__(self, function: FunctionType, tree: ast.FunctionDef, callers: frozenset[Any]) -> None:
        self._function, self._tree, self._callers = function, tree, callers
        self._open: set[str] = set()  # variables whose assignments are being read: they may refer to each other

    def count(self, node: ast.expr) -> int | None:
        if isinstance(node, ast.Tuple):
            return None if any(isinstance(part, ast.Starred) for part in node.elts) else len(node.elts)
        if isinstance(node, ast.IfExp):
            return self._agreed([node.body, node.orelse])
        if isinstance(node, ast.BoolOp):
            return self._agreed(node.values)
        if isinstance(node, ast.Name):
            return self._of_variable(node.id)
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, ast.Constant) and node.value is None:
            return 0
        return 1 if isinstance(node, SINGLE) else None

    def _agreed(self, nodes: list[ast.expr]) -> int | None:
        counts = {self.count(node) for node in nodes}
        return counts.pop() if len(counts) == 1 else None

    def _of_variable(self, name: str) -> int | None:
        if name in self._open:
            return None
        self._open.add(name)
        counts = {self.count(value) for value in self._assigned(name)}
        self._open.discard(name)
        return counts.pop() if len(counts) == 1 else None

    def _assigned(self, name: str) -> Iterator[ast.expr]:
        """The expressions that are assigned to a variable; a part of an unpacked tuple counts as a number."""
        for node in _inside(self._tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name) and target.id == name:
                        yield node.value
                    elif isinstance(target, ast.Tuple) and name in {getattr(part, "id", "") for part in target.elts}:
                        yield ast.Constant(0)

    def _of_call(self, node: ast.Call) -> int | None:
        if not isinstance(node.func, ast.Name):
            return None
        name = node.func.id
        known = {**self._function.__globals__, **closed_over(self._function)}
        called = known.get(name)
        if isinstance(called, FunctionType):
            counts = {count for count, _ in _returned_values(called, self._callers)}
            return counts.pop() if len(counts) == 1 else None
        return 1 if name not in known and name in ("bool", "int", "float", "abs", "min", "max") else None


def _inside(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a function, without those of functions inside it, in the order of its lines."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, NESTED):
            yield from _inside(node)


def _tried(world: KernelWorld, least: int) -> int:
    """How many values a step in plain Python returns; `least` if it fails: the trial before compiling says why."""
    try:
        with time_limit(TRIAL_SECONDS):
            returned = _try_step(world)
    except Exception:  # noqa: BLE001 - anything that the world's author may have written
        return least
    return len(returned) if isinstance(returned, tuple) else 1


def _try_step(world: KernelWorld) -> Any:
    """What `step` returns in plain Python, after a reset."""
    agents = world.num_agents
    kinds = {"state": world.state_dtype, "scratch": world.scratch_dtype}
    given: dict[str, Any] = {name: PlainRecord(np.zeros(1, dtype)[0]) for name, dtype in kinds.items()}
    infos = PlainRows(np.zeros(agents, world.info_dtype))
    given |= {"info": infos[0] if agents == 1 else infos, "params": PlainRecord(world.params_record()[0])}
    given["memory"] = PlainRows(np.zeros(world.memory, np.uint8))
    given["tables"] = SimpleNamespace(**{name: PlainRows(np.asarray(table)) for name, table in world.tables.items()})
    adapt(world.reset, "reset")(*(given[name] for name in ARGUMENTS["reset"]))
    action = np.array([deepcopy(world.action_space).sample() for _ in range(agents)])
    given |= {"rewards": PlainRows(np.zeros(agents)), "action": PlainRows(action if agents > 1 else action[0])}
    if not action[0].shape and agents == 1:
        given["action"] = action[0].item()
    return adapt(world.step, "step")(*(given[name] for name in ARGUMENTS["step"]))


class DryRunTimeout(Exception):
    """Raised in a dry run that takes too long."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise DryRunTimeout in the block if it takes longer. (It does not interrupt a call of compiled code.)

    >>> with time_limit(0.05):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    rookery.kernel.step_values.DryRunTimeout
    """
    thread, lock, done = threading.get_ident(), threading.Lock(), False

    def interrupt() -> None:
        with lock:
            if not done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(DryRunTimeout))

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:  # an exception raised after this point would hit unrelated code
            done = True
        timer.cancel()
