"""The compilers of the functions of kernel worlds: Numba's own, with passes of ours. Needs Numba.

Compiled code computes as Python does, refuses to write to tables and parameters, and checks indices.
"""

from __future__ import annotations

from typing import Any, ClassVar

from numba import types
from numba.core import cgutils, ir, ir_utils
from numba.core.compiler import DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, FunctionPass, register_pass
from numba.core.datamodel import models, register_default
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed
from numba.core.ir_utils import build_definitions
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import InlineClosureLikes, IRProcessing
from numba.extending import intrinsic
from numba.np import arrayobj

from rookery.kernel.call_record import emit_failure
from rookery.kernel.code_checks import Target, check_pass, toolkit
from rookery.kernel.interrupt import CountIterations
from rookery.kernel.plain_values import READ_ONLY
from rookery.part_compiler import PartCompiler

WRITES = (ir.SetAttr, ir.SetItem, ir.StaticSetItem, ir.DelItem)
LOADS = ("getitem", "static_getitem", "getattr")


# --- numbers of 64 bits -----------------------------------------------------------------------------------------------


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
    (For whole arrays Numba would allow `+=`, even for read-only ones.)

    Every number that a world reads from a field, an array or a table becomes a double, a 64-bit integer or a bool: "f4"
    and "u1" define how a number is stored, not how it is computed with. Numba alone would compute with single
    precision, and 3 - 5 of two bytes would be 18446744073709551614.
    """

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


# --- read-only tables and parameters ----------------------------------------------------------------------------------


class ReadOnlyRecord(types.Record):
    """A record whose fields cannot be set."""

    def __init__(self, record: types.Record) -> None:
        fields = [(name, field._replace(type=frozen(field.type))._asdict()) for name, field in record.fields.items()]
        super().__init__(fields, record.size, record.aligned)
        self.name: str = f"readonly {self.name}"


class ReadOnlyNestedArray(types.NestedArray):
    """An array in a read-only record."""

    def __init__(self, array: types.NestedArray) -> None:
        super().__init__(frozen(array.dtype), array.shape)
        self.mutable = False
        self.name: str = f"readonly {self.name}"


register_default(ReadOnlyRecord)(models.RecordModel)
register_default(ReadOnlyNestedArray)(models.NestedArrayModel)


def frozen(kind: Any) -> Any:
    """The read-only form of a type."""
    if isinstance(kind, types.NestedArray):
        return ReadOnlyNestedArray(kind)
    if isinstance(kind, types.Array):
        return kind.copy(dtype=frozen(kind.dtype), readonly=True)
    return ReadOnlyRecord(kind) if isinstance(kind, types.Record) else kind


@register_pass(mutates_CFG=False, analysis_only=True)
class RefuseWrites(AnalysisPass):
    """A compiler pass: refuses writes to fields of read-only records and tuples, and the indirect writes to read-only
    arrays that Numba allows. (Direct writes to such an array, Numba refuses itself.)"""

    _name = "rookery_refuse_writes"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for statement in block.body:
                if isinstance(statement, WRITES) and _is_read_only(state.typemap[statement.target.name]):
                    raise TypingError(READ_ONLY, loc=statement.loc)
                if isinstance(statement, ir.Assign) and _hands_out_elements(state.typemap[statement.target.name]):
                    raise TypingError(READ_ONLY, loc=statement.loc)
        return False


def _is_read_only(kind: Any) -> bool:
    if isinstance(kind, types.NumpyFlatType):
        kind = kind.array_type
    if isinstance(kind, types.Array):
        return not kind.mutable
    return isinstance(kind, (ReadOnlyRecord, types.BaseNamedTuple))


def _hands_out_elements(kind: Any) -> bool:
    """Whether it is an `np.nditer` over a read-only array, whose elements could be written to."""
    return isinstance(kind, types.NumpyNdIterType) and any(_is_read_only(array) for array in kind.arrays)


# --- checked indices --------------------------------------------------------------------------------------------------


def _freeze(builder: Any, value: Any) -> Any:
    """The value, as one number: a float that is too large for an integer becomes any number, and the compiler might
    otherwise assume one number for the check and another for what follows."""
    instruction = cgutils.ir.instructions.Instruction(builder.block, value.type, "freeze", [value])
    builder._insert(instruction)
    return instruction


CheckCode = check_pass(
    "rookery_check_code", FunctionPass, register_pass,
    toolkit(ir, ir_utils, Target(intrinsic, arrayobj, emit_failure, _freeze)),
)  # fmt: skip


# --- the compilers ----------------------------------------------------------------------------------------------------


class WorldCompiler(PartCompiler):
    """With more passes, for the functions of a world; the loop around them needs none."""

    numbers: ClassVar[dict[Any, int]] = {}  # of the functions that are checked

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.state.numbers = self.numbers

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(WidenLoads, IRProcessing)
        passes.add_pass_after(CountIterations, IRProcessing)
        passes.add_pass_after(CheckCode, InlineClosureLikes)
        passes.add_pass_after(RefuseWrites, NopythonTypeInference)
        passes.finalize()
        return [passes]
