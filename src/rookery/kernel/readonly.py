"""Read-only tables and parameters: code that writes to them does not compile."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import ir
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.datamodel import models, register_default
from numba.core.errors import TypingError

from rookery.kernel.plain_values import READ_ONLY

WRITES = (ir.SetAttr, ir.SetItem, ir.StaticSetItem, ir.DelItem)


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
