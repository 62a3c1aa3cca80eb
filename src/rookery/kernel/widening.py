"""A compiler pass that makes compiled code compute with 64-bit numbers, as Python does.

Every number that a world reads from a field, an array or a table becomes a double, a 64-bit integer or a bool: "f4" and
"u1" define how a number is stored, not how it is computed with. Numba alone would compute with single precision, and
3 - 5 of two bytes would be 18446744073709551614.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import ir
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.imputils import impl_ret_borrowed
from numba.core.ir_utils import build_definitions
from numba.extending import intrinsic

LOADS = ("getitem", "static_getitem", "getattr")


@intrinsic
def widen(typing_context: Any, value: Any) -> Any:
    """A number as a 64-bit number; anything else unchanged."""
    wide = value
    if isinstance(value, types.Float):
        wide = types.float64
    elif isinstance(value, types.Integer) and value.bitwidth < 64:
        wide = types.int64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return impl_ret_borrowed(context, builder, wide, context.cast(builder, arguments[0], value, wide))

    return wide(value), generate


@register_pass(mutates_CFG=False, analysis_only=False)
class WidenLoads(FunctionPass):
    """A compiler pass before type inference: widens every number that is read, and turns `x += y` into `x = x + y`.
    (For whole arrays Numba would allow `+=`, even for read-only ones.)"""

    _name = "rookery_widen_loads"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        blocks = state.func_ir.blocks
        for block in blocks.values():
            block.body = [part for statement in block.body for part in _widened(statement)]
        state.func_ir._definitions = build_definitions(blocks)
        return True


def _widened(statement: Any) -> list[Any]:
    if not (isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Expr)):
        return [statement]
    value, scope, at = statement.value, statement.target.scope, statement.loc
    if value.op == "inplace_binop":
        return [ir.Assign(ir.Expr.binop(value.immutable_fn, value.lhs, value.rhs, value.loc), statement.target, at)]
    if value.op not in LOADS:
        return [statement]
    read, function = scope.redefine("$read", at), scope.redefine("$widen", at)
    return [
        ir.Assign(value, read, at),
        ir.Assign(ir.FreeVar(0, "widen", widen, at), function, at),
        ir.Assign(ir.Expr.call(function, (read,), (), at), statement.target, at),
    ]
